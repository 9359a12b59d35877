"""Attaching and detaching: who holds which IPU."""

import pytest
import torch

import poptorch
from poptorch import _devices


def make_model(**settings):
    options = poptorch.Options().showCompilationProgressBar(False)
    for setter, value in settings.items():
        getattr(options, setter)(value)
    return poptorch.inferenceModel(torch.nn.Linear(2, 2), options)


@pytest.fixture
def hardware(monkeypatch, tmp_path):
    """Four IPUs that no other test has a program on."""
    monkeypatch.setenv("OPENIPU_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("OPENIPU_REPORT_HARDWARE", "1")
    monkeypatch.setattr(_devices, "INSTALLED_IPUS", 4)


def test_there_is_no_hardware_unless_it_is_reported(monkeypatch):
    assert not poptorch.ipuHardwareIsAvailable()
    with pytest.raises(AssertionError, match="No IPU hardware available"):
        poptorch.ipuHardwareVersion()
    monkeypatch.setenv("OPENIPU_REPORT_HARDWARE", "1")
    assert poptorch.ipuHardwareIsAvailable()
    assert poptorch.ipuHardwareVersion() in (1, 2, 21)


def test_two_models_cannot_hold_the_same_ipu():
    first, second = make_model(useIpuId=1), make_model(useIpuId=1)
    first(torch.ones(1, 2))
    with pytest.raises(poptorch.Error, match=r"Failed to acquire 1 IPU\(s\) with id 1"):
        second.compile(torch.ones(1, 2))
    assert not second.isCompiled()
    first.detachFromDevice()
    second(torch.ones(1, 2))
    second.destroy()
    first(torch.ones(1, 2))


def test_models_that_do_not_choose_an_ipu_never_collide_without_hardware():
    models = [make_model() for _ in range(3)]
    for model in models:
        model(torch.ones(1, 2))
        assert model.isAttachedToDevice()


def test_reported_hardware_runs_out_of_ipus(hardware):
    models = [make_model() for _ in range(4)]
    for model in models:
        model(torch.ones(1, 2))
    another = make_model()
    with pytest.raises(poptorch.Error, match="Failed to acquire"):
        another(torch.ones(1, 2))
    del model
    models.pop()  # a model that is forgotten gives its IPU back
    another(torch.ones(1, 2))


def test_on_demand_attaches_at_the_first_run(hardware):
    model = make_model(connectionType=poptorch.ConnectionType.OnDemand)
    model.compile(torch.ones(1, 2))
    assert not model.isAttachedToDevice()
    model(torch.ones(1, 2))
    assert model.isAttachedToDevice()


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (poptorch.ConnectionType.Always, ["Acquired 1 IPU(s)", "Attached to device", "Finished Poplar compilation"]),
        (poptorch.ConnectionType.OnDemand, ["Acquired 1 IPU(s)", "Finished Poplar compilation", "Attached to device"]),
    ],
)
def test_the_log_says_in_order_when_ipus_are_found_and_taken(when, said, hardware, caplog):
    with caplog.at_level("DEBUG", logger="poptorch::python"):
        make_model(connectionType=when)(torch.ones(1, 2))
    steps = [text for record in caplog.records for text in said if record.getMessage().startswith(text)]
    assert steps == said


def test_ipus_are_reserved_in_powers_of_two(hardware):
    with pytest.raises(poptorch.Error, match="3 IPUs, however PopTorch must reserve a minimum of 4"):
        make_model(replicationFactor=3)(torch.ones(3, 2))
    assert make_model(replicationFactor=3, autoRoundNumIPUs=True)(torch.ones(3, 2)).shape == (3, 2)


def test_too_many_ipus_need_several_processes():
    with pytest.raises(poptorch.Error, match=r"Too many IPUs requested \(128\)"):
        make_model(replicationFactor=128)(torch.ones(128, 2))


def test_detached_weights_are_written_again_when_attached():
    layer = torch.nn.Linear(2, 2)
    model = poptorch.inferenceModel(layer, poptorch.Options().showCompilationProgressBar(False))
    model(torch.ones(1, 2))
    model.detachFromDevice()
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.fill_(3.0)
    assert torch.equal(model(torch.ones(1, 2)), torch.full((1, 2), 3.0))
