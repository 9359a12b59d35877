"""Which machine PopTorch's own settings choose."""

import pytest
import torch

import poptorch
from openipu.session_log import log


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("OPENIPU_SYSTEM", "POPTORCH_IPU_MODEL_VERSION", "POPTORCH_SMALL_IPU_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(log, "system", None)


def plan_system(options=None):
    options = (options or poptorch.Options()).showCompilationProgressBar(False)
    executor = poptorch.inferenceModel(torch.nn.Linear(4, 4), options)
    executor.compile(torch.ones(1, 4))
    return executor._compiled.plan.system


def test_the_default_system_is_planned_for():
    assert plan_system().name == "bow-2000"


@pytest.mark.parametrize(("version", "architecture"), [("ipu1", "ipu1"), ("ipu2", "ipu2"), ("ipu21", "ipu21")])
def test_a_version_chooses_a_machine_of_it(monkeypatch, version, architecture):
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", version)
    assert plan_system().target.architecture == architecture


def test_an_offline_target_chooses_a_machine_of_its_version():
    assert plan_system(poptorch.Options().useOfflineIpuTarget(1)).target.name == "gc2"


def test_the_small_model_has_four_tiles(monkeypatch):
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")
    assert plan_system().target.tiles == 4


def test_a_system_named_to_openipu_goes_first(monkeypatch):
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", "ipu1")
    monkeypatch.setenv("OPENIPU_SYSTEM", "bow-pod16")
    assert plan_system().name == "bow-pod16"


def test_an_unknown_version_is_refused_with_those_there_are(monkeypatch):
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", "ipu9")
    with pytest.raises(poptorch.Error, match=r"Unknown IPU version 'ipu9'.*ipu1, ipu2, ipu21"):
        plan_system()
