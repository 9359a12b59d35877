"""Options, patterns, data flows, devices: what they accept, and what they refuse."""

from __future__ import annotations

import pytest

import popart
from popart._options import EFFECTS


def test_unknown_options_raise() -> None:
    options = popart.SessionOptions()
    with pytest.raises(AttributeError, match="enableEverything"):
        options.enableEverything = True
    with pytest.raises(AttributeError, match="enableEverything"):
        _ = options.enableEverything
    with pytest.raises(TypeError, match="accumulationFactor is a whole number"):
        options.accumulationFactor = "two"


def test_every_option_says_what_it_does() -> None:
    for name, entry in EFFECTS.items():
        assert entry.effect in ("acts", "plan", "none"), name
        assert len(entry.reason) > 5, name


def test_options_of_options_change_in_place() -> None:
    options = popart.SessionOptions()
    options.engineOptions["debug.retainDebugInformation"] = "true"
    assert options.engineOptions == {"debug.retainDebugInformation": "true"}
    assert popart.SessionOptions().engineOptions == {}


def test_an_old_name_is_an_alias_and_warns(capfd: pytest.CaptureFixture[str]) -> None:
    options = popart.SessionOptions()
    options.defaultPrefetchBufferingDepth = 3
    assert options.defaultBufferingDepth == 3
    assert "deprecated" in capfd.readouterr().err


def test_accumulation_must_be_enabled(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    options = popart.SessionOptions()
    options.accumulationFactor = 2
    with pytest.raises(
        popart.popart_exception, match="enableGradientAccumulation is false, but accumulationFactor > 1"
    ):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)
    options.enableGradientAccumulation = True
    with pytest.raises(popart.popart_exception, match="Gradient Accumulation only available when training"):
        popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("INVALID",), "Invalid anchor return type ID supplied: INVALID"),
        (("All", 2), "A return period should not be supplied for this anchor return type"),
        (("EveryN", 0), "Anchor return period must be greater than zero"),
        (("EveryN",), "Must specify return period with option 'EVERYN'"),
    ],
)
def test_anchor_return_types_are_checked(args: tuple[object, ...], text: str) -> None:
    with pytest.raises(popart.popart_exception, match=text):
        popart.AnchorReturnType(*args)


def test_patterns_have_levels_and_names() -> None:
    assert popart.Patterns().PreUniRepl is True
    assert popart.Patterns(popart.PatternsLevel.Minimal).PostNRepl is False
    assert popart.Patterns(["PostNRepl", "InPlace"]).isPatternEnabled("PostNRepl")
    with pytest.raises(popart.popart_exception, match="Unknown pattern Inplace, did you mean InPlace"):
        popart.Patterns(["Inplace"])
    with pytest.raises(popart.popart_exception, match="Pattern 'MatMulOp' is mandatory and cannot be disabled"):
        popart.Patterns().MatMulOp = False


def test_devices_are_found_and_refused() -> None:
    manager = popart.DeviceManager()
    model = manager.createIpuModelDevice({"numIPUs": 2})
    assert (model.numIpus, model.tilesPerIPU, model.type) == (2, 4, popart.DeviceType.IpuModel)
    with pytest.raises(popart.popart_exception, match="Invalid option `tiles' passed to createIpuModelDevice"):
        manager.createIpuModelDevice({"tiles": 3})
    with pytest.raises(popart.popart_exception, match=r"Failed to acquire device with 256 IPUs\. Ensure that"):
        manager.acquireAvailableDevice(256)
    with pytest.raises(popart.poplar_exception, match="No such device set id: '999'"):
        manager.acquireDeviceById(999)
    with manager.acquireAvailableDevice(1) as device:
        assert device.isAttached
    assert not device.isAttached


def test_an_engine_option_that_is_none_is_named(device: popart.DeviceInfo) -> None:
    builder = popart.Builder()
    y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [2])])
    options = popart.SessionOptions()
    options.engineOptions["option"] = "value"
    with pytest.raises(popart.poplar_exception, match=r"Unrecognised option 'option'$"):
        popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [y]), device, userOptions=options
        ).prepareDevice()
