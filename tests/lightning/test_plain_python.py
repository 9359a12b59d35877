"""IPUs are known to Lightning in plain Python: whatever is imported first, and in worker processes, too."""

import os
import subprocess
import sys
import textwrap

import pytest

ROOTS = ("lightning.pytorch", "pytorch_lightning")


def run_python(tmp_path, script, **environment):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    environment = {**os.environ, "OPENIPU_ENGINE": "operators", **environment}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


@pytest.mark.parametrize("root", ROOTS)
def test_old_imports_find_the_classes_of_that_lightning(tmp_path, root):
    script = f"""
        from {root}.accelerators.ipu import IPUAccelerator, _IPU_AVAILABLE, _POPTORCH_AVAILABLE
        from {root}.strategies.ipu import IPUStrategy
        from {root}.plugins.precision.ipu import IPUPrecisionPlugin
        import {root}.accelerators as accelerators, {root}.strategies as strategies
        import {root}.plugins as plugins, {root}.plugins.precision as precision
        assert accelerators.IPUAccelerator is IPUAccelerator and issubclass(IPUAccelerator, accelerators.Accelerator)
        assert strategies.IPUStrategy is IPUStrategy and issubclass(IPUStrategy, strategies.Strategy)
        assert plugins.IPUPrecisionPlugin is precision.IPUPrecisionPlugin is IPUPrecisionPlugin is plugins.IPUPrecision
        assert _IPU_AVAILABLE and _POPTORCH_AVAILABLE
        print(IPUPrecisionPlugin(16).precision, IPUPrecisionPlugin("32").precision)
        import lightning_graphcore
        assert lightning_graphcore.IPUStrategy is IPUStrategy
        try:
            strategies.NoSuchStrategy
        except AttributeError as error:
            print(error)
    """
    words = run_python(tmp_path, script)
    assert words[:2] == ["16-mixed", "32-true"]
    assert " ".join(words[2:]) == f"module '{root}.strategies' has no attribute 'NoSuchStrategy'"


def test_a_script_that_names_no_openipu_trains_on_ipus(tmp_path):
    script = """
        from pytorch_lightning import Trainer
        from pytorch_lightning.demos.boring_classes import BoringModel
        trainer = Trainer(accelerator="ipu", devices=2, fast_dev_run=True, enable_progress_bar=False)
        trainer.fit(BoringModel())
        print(type(trainer.strategy).__name__, trainer.num_devices)
    """
    assert run_python(tmp_path, script)[-2:] == ["IPUStrategy", "2"]


def test_a_program_without_ipus_does_not_load_poptorch(tmp_path):
    script = """
        import sys
        from lightning.pytorch import Trainer
        from lightning.pytorch.accelerators import AcceleratorRegistry
        trainer = Trainer(logger=False, enable_checkpointing=False)
        print(type(trainer.accelerator).__name__, "ipu" in AcceleratorRegistry)
        print([name for name in ("poptorch", "openipu", "lightning_graphcore.strategy") if name in sys.modules])
    """
    assert run_python(tmp_path, script)[-3:] == ["CPUAccelerator", "True", "[]"]


@pytest.mark.parametrize("strategy", ["SharedMemory", "Fork", pytest.param("ForkServer", marks=pytest.mark.thorough)])
def test_asynchronous_loaders_of_a_script_with_the_strategy_load_everything(tmp_path, strategy):
    """Their process imports the script again, unless it was forked."""
    script = f"""
        import pytorch_lightning, poptorch, torch
        from pytorch_lightning.strategies import IPUStrategy

        class Numbers(torch.utils.data.Dataset):
            def __len__(self):
                return 16
            def __getitem__(self, index):
                return torch.tensor([index])

        if __name__ == "__main__":
            loader = poptorch.DataLoader(
                poptorch.Options(), Numbers(), batch_size=4, mode=poptorch.DataLoaderMode.Async,
                async_options={{"sharing_strategy": poptorch.SharingStrategy.{strategy}}},
            )
            print(*(int(value) for batch in loader for value in batch))
    """
    assert [int(word) for word in run_python(tmp_path, script)] == list(range(16))


@pytest.mark.parametrize("method", ["spawn", pytest.param("fork", marks=pytest.mark.thorough)])
def test_worker_processes_know_the_strategy(tmp_path, method):
    script = f"""
        import torch
        from lightning.pytorch.strategies import IPUStrategy

        class Names(torch.utils.data.Dataset):
            def __len__(self):
                return 2
            def __getitem__(self, index):
                from lightning.pytorch.accelerators import AcceleratorRegistry
                return IPUStrategy.__name__ if "ipu" in AcceleratorRegistry else "unknown"

        if __name__ == "__main__":
            loader = torch.utils.data.DataLoader(
                Names(), batch_size=None, num_workers=2, multiprocessing_context={method!r}
            )
            print(*loader)
    """
    assert run_python(tmp_path, script) == ["IPUStrategy", "IPUStrategy"]


def test_a_lightning_with_ipus_of_its_own_is_left_as_it_is(tmp_path):
    (tmp_path / "pytorch_lightning").mkdir()
    (tmp_path / "pytorch_lightning" / "__init__.py").write_text('__version__ = "1.9.0"\n')
    script = """
        import warnings
        warnings.simplefilter("error")
        import pytorch_lightning, sys
        front_end = "lightning_graphcore._registration.front_end"
        print(pytorch_lightning.__file__.startswith(sys.path[0]), front_end in sys.modules)
    """
    assert run_python(tmp_path, script) == ["True", "False"]
