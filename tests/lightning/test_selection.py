"""Which Trainer gets IPUs, and for which Lightning."""

import os
import subprocess
import sys
import textwrap

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.accelerators import AcceleratorRegistry, CPUAccelerator
from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry
from lightning.pytorch.utilities.exceptions import MisconfigurationException

import lightning_graphcore
from lightning_graphcore import IPUAccelerator, IPUPrecision, IPUStrategy


def make(**settings):
    return pl.Trainer(logger=False, enable_checkpointing=False, **settings)


def run_python(tmp_path, script, *command, **environment):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, *command, str(path)],
        cwd=tmp_path,
        env={**os.environ, "OPENIPU_ENGINE": "operators", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_both_names_are_registered():
    assert "ipu" in AcceleratorRegistry.available_accelerators()
    assert "ipu_strategy" in StrategyRegistry.available_strategies()


@pytest.mark.parametrize(
    "settings",
    [
        {"accelerator": "ipu"},
        {"accelerator": "ipu", "devices": 1},
        {"accelerator": "ipu", "strategy": "ipu_strategy", "devices": 2},
        {"strategy": "ipu_strategy", "devices": 2},
        {"accelerator": IPUAccelerator(), "devices": 8},
        {"strategy": IPUStrategy(), "devices": 2},
        {"strategy": IPUStrategy(accelerator=IPUAccelerator()), "devices": 2},
        {"strategy": IPUStrategy(), "accelerator": "ipu", "devices": "4"},
    ],
)
def test_every_way_to_ask_leads_to_the_ipu_strategy(settings):
    trainer = make(**settings)
    assert isinstance(trainer.strategy, IPUStrategy)
    assert isinstance(trainer.accelerator, IPUAccelerator)
    assert isinstance(trainer.precision_plugin, IPUPrecision)
    assert trainer.num_devices == int(settings.get("devices", 4))
    assert trainer.world_size == 1


def test_devices_are_those_of_the_modelled_system(monkeypatch):
    assert make(accelerator="ipu", devices="auto").num_devices == 4
    monkeypatch.setenv("OPENIPU_SYSTEM", "pod16")
    assert make(accelerator="ipu", devices=-1).num_devices == 16
    assert make(accelerator="ipu", devices=[0, 1]).num_devices == 2


@pytest.mark.parametrize("devices", ["many", 2.5, -3])
def test_devices_that_are_no_number_are_refused(devices):
    with pytest.raises(MisconfigurationException, match="is not a number of IPUs"):
        make(accelerator="ipu", devices=devices)


def test_other_accelerators_are_chosen_as_before():
    assert isinstance(make().accelerator, CPUAccelerator)
    assert isinstance(make(accelerator="cpu", devices=2).strategy, DDPStrategy)


def test_auto_means_ipus_only_when_asked_for(monkeypatch):
    assert isinstance(make(accelerator="auto").accelerator, CPUAccelerator)
    monkeypatch.setenv("OPENIPU_LIGHTNING_AUTO", "1")
    assert isinstance(make().accelerator, IPUAccelerator)
    lightning_graphcore.use_ipu_by_default(False)
    assert isinstance(make().accelerator, CPUAccelerator)
    lightning_graphcore._registration.arrival._choice.clear()


def test_strategies_and_accelerators_that_do_not_go_together_are_refused():
    with pytest.raises(MisconfigurationException, match="do not go together"):
        make(accelerator="ipu", devices=2, strategy="ddp")
    with pytest.raises(MisconfigurationException, match="runs on IPUs, not on accelerator='cpu'"):
        make(accelerator="cpu", strategy=IPUStrategy())
    with pytest.raises(MisconfigurationException, match="num_nodes=2"):
        make(accelerator="ipu", num_nodes=2)


def test_precisions_that_an_ipu_lacks_are_refused():
    for precision in ("bf16-mixed", "64-true"):
        with pytest.raises(ValueError, match=rf"precision='{precision}'\)` is not supported"):
            make(accelerator="ipu", precision=precision)
    assert make(accelerator="ipu", precision=16).precision == "16-mixed"


def test_unused_ipus_are_told_only_with_reported_hardware(monkeypatch, recwarn):
    make(accelerator="cpu")
    assert not [entry for entry in recwarn if "IPU available" in str(entry.message)]
    monkeypatch.setenv("OPENIPU_REPORT_HARDWARE", "1")
    with pytest.warns(UserWarning, match="IPU available but not used"):
        make(accelerator="cpu")


def test_the_classes_stand_where_lightning_once_had_them():
    from lightning.pytorch.accelerators import IPUAccelerator as OldAccelerator
    from lightning.pytorch.strategies import IPUStrategy as OldStrategy

    assert (OldAccelerator, OldStrategy) == (IPUAccelerator, IPUStrategy)


def test_parallel_devices_are_ipus():
    assert IPUAccelerator.get_parallel_devices(2) == [torch.device("ipu", 0), torch.device("ipu", 1)]


FIT = """
    import torch
    from {package}.demos.boring_classes import BoringModel
    class Model(BoringModel):
        def training_step(self, batch, batch_idx):
            loss = self.step(batch)
            self.log("loss", loss)
            return loss
    trainer = Trainer(accelerator="ipu", devices=2, fast_dev_run=True, enable_progress_bar=False, {extra})
    trainer.fit(Model())
    print(type(trainer.strategy).__name__, trainer.num_devices, float(trainer.callback_metrics["loss"]) > 0)
"""


@pytest.mark.parametrize(
    "imports",
    [
        "from pytorch_lightning import Trainer\n    import lightning_graphcore",
        "from lightning_graphcore import IPUStrategy\n    from pytorch_lightning import Trainer",
    ],
)
def test_pytorch_lightning_gets_classes_of_its_own(tmp_path, imports):
    extra = "strategy=IPUStrategy(device_iterations=2)" if "IPUStrategy" in imports else ""
    check = """
    import pytorch_lightning, sys
    import lightning_graphcore
    assert isinstance(trainer.strategy, pytorch_lightning.strategies.Strategy)
    assert isinstance(trainer.strategy, lightning_graphcore.IPUStrategy)
    """
    script = "    " + imports + FIT.format(package="pytorch_lightning", extra=extra) + check
    assert run_python(tmp_path, script)[-3:] == ["IPUStrategy", "2", "True"]


def test_openipu_run_makes_ipus_known_to_a_script_that_names_none(tmp_path):
    script = "    from lightning.pytorch import Trainer" + FIT.format(package="lightning.pytorch", extra="")
    assert run_python(tmp_path, script, "-m", "openipu", "run", "--quiet")[-3:] == ["IPUStrategy", "2", "True"]


def test_importing_the_front_end_imports_no_lightning(tmp_path):
    script = "import sys, lightning_graphcore\nprint('lightning' in sys.modules, 'torch' in sys.modules)"
    assert run_python(tmp_path, script) == ["False", "False"]
