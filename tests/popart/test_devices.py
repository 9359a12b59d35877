"""The machine that a device stands for is the one that its session's plan is for."""

import numpy as np
import pytest

import popart
from openipu.machine import resolve_system
from openipu.overrides import Overrides, set_overrides

BOW = resolve_system("bow-2000").target


def make_plan(device):
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [256, 512]))
    w = builder.addInitializedInputTensor(np.ones((512, 256), np.float32))
    y = builder.aiOnnx.matmul([x, w])
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    return session._compiled.plan


def make_model(**options):
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, **options})


def test_fewer_tiles_need_longer_and_are_filled_further():
    small, whole = make_plan(make_model(tilesPerIPU=4)), make_plan(make_model(tilesPerIPU=BOW.tiles))
    assert small.system.target.tiles == 4
    assert whole.system.target.tiles == BOW.tiles == 1472
    assert small.timing.call_cycles > whole.timing.call_cycles
    # Two operands and a result of 4-byte numbers lie on 4 tiles.
    assert small.peak_tile_bytes > 4 * (256 * 512 + 512 * 256 + 256 * 256) / 4 > whole.peak_tile_bytes
    assert not small.fit.fits
    assert whole.fit.fits


@pytest.mark.parametrize(
    ("version", "chip", "tiles"), [("ipu1", "gc2", 1216), ("ipu2", "bow", 1472), ("ipu21", "c600", 1472)]
)
def test_a_version_is_a_chip(version, chip, tiles):
    target = make_plan(make_model(ipuVersion=version)).system.target
    assert (target.name, target.architecture, target.tiles) == (chip, version, tiles)


def test_a_model_without_options_says_popart_s_four_tiles_and_is_planned_as_a_whole_ipu():
    device = make_model()
    assert device.tilesPerIPU == 4
    assert make_plan(device).system.target == BOW


def test_the_command_line_comes_before_the_device():
    before = set_overrides(Overrides(system=resolve_system("m2000")))
    try:
        assert make_plan(make_model(tilesPerIPU=8, ipuVersion="ipu21")).system.name == "m2000"
    finally:
        set_overrides(before)


def test_ipus_of_the_pod_have_as_many_tiles_as_were_asked_for():
    device = popart.DeviceManager().acquireAvailableDevice(1, tilesPerIpu=64)
    try:
        assert device.tilesPerIPU == 64
        assert make_plan(device).system.target.tiles == 64
    finally:
        device.detach()


def test_offline_devices_are_of_named_systems():
    manager = popart.DeviceManager()
    assert manager.createOfflineIpuFromSystemString("ipu21", 2).ipuVersion == "ipu21"
    assert manager.createOfflineIpuFromSystemString("IPU-POD16", 2).ipuVersion == "ipu2"
    with pytest.raises(popart.poplar_exception, match="Unknown system"):
        manager.createOfflineIpuFromSystemString("IPU-POD17", 2)
    copied = manager.createOfflineIpuFromDeviceInfo(make_model(tilesPerIPU=8))
    assert make_plan(copied).system.target.tiles == 8


def test_more_tiles_than_an_ipu_has_are_refused():
    with pytest.raises(popart.poplar_exception, match=r"tilesPerIPU=2,000, and an IPU of bow-2000 \(ipu2\) has 1,472"):
        make_plan(make_model(tilesPerIPU=2000))
    with pytest.raises(popart.popart_exception, match="tilesPerIPU is a number of tiles, not -1"):
        make_model(tilesPerIPU=-1)
