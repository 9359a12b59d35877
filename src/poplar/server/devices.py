"""Requests about targets, devices and models."""

from __future__ import annotations

from typing import Any

import msgspec

from poplar._errors import parse_error
from poplar._target import Device, DeviceManager, IPUModel, Target, TargetType
from poplar.server.session import Session, handles
from poplar.server.wire import Handle

_FIGURES = {
    "ipus": "getNumIPUs",
    "tilesPerIPU": "getTilesPerIPU",
    "tiles": "getNumTiles",
    "workers": "getNumWorkerContexts",
    "bytesPerTile": "getBytesPerTile",
    "memoryBytes": "getMemoryBytes",
    "exchangeBytesPerCycle": "getExchangeBytesPerCycle",
    "minIPUSyncDelay": "getMinIPUSyncDelay",
    "maxIPUSyncDelay": "getMaxIPUSyncDelay",
    "globalSyncCycles": "getGlobalSyncCycles",
    "interleavedMemoryElementIndex": "getInterleavedMemoryElementIndex",
    "tileClockFrequency": "getTileClockFrequency",
    "dataPathWidth": "getDataPathWidth",
    "fp16InFp16OutConvUnitsPerTile": "getFp16InFp16OutConvUnitsPerTile",
    "fp16InFp32OutConvUnitsPerTile": "getFp16InFp32OutConvUnitsPerTile",
    "fp32InFp32OutConvUnitsPerTile": "getFp32InFp32OutConvUnitsPerTile",
    "convUnitMaxPipelineDepth": "getConvUnitMaxPipelineDepth",
    "convUnitCoeffLoadBytesPerCycle": "getConvUnitCoeffLoadBytesPerCycle",
    "exchangeBusSharing": "supportsExchangeBusSharing",
    "tilesPerSharedExchangeBus": "getTilesPerSharedExchangeBus",
    "arch": "getTargetArchString",
    "system": "getTargetSystemString",
}
_MODEL = (
    "numIPUs",
    "tilesPerIPU",
    "numWorkerContexts",
    "bytesPerTile",
    "exchangeBytesPerCycle",
    "minIPUSyncDelay",
    "clockFrequency",
)


def describe_target(session: Session, target: Target) -> list[Any]:
    """Its number, and all figures that C++ can ask for."""
    figures = {name: getattr(target, method)() for name, method in _FIGURES.items()}
    return [session.keep(target), {**figures, "type": target.getTargetType().value}]


def _describe_device(session: Session, device: Device) -> list[Any]:
    return [session.keep(device), device.getId(), describe_target(session, device.getTarget())]


@handles("target.cpu")
def make_cpu_target(session: Session, ipus: int) -> Any:
    return describe_target(session, Target.createCPUTarget(numIPUs=ipus))


@handles("target.ipu")
def make_ipu_target(session: Session, ipus: int, tiles: int | None, system: str) -> Any:
    return describe_target(session, Target.createIPUTarget(ipus, system, tiles))


@handles("device.cpu")
def make_cpu_device(session: Session) -> Any:
    return _describe_device(session, Device.createCPUDevice())


@handles("device.simulator")
def make_simulator(session: Session, target: Handle) -> Any:
    return _describe_device(session, Device.createSimulatorDevice(session.find(target)))


@handles("device.virtual")
def make_virtual_device(session: Session, device: Handle, tiles: int) -> Any:
    return _describe_device(session, session.find(device).createVirtualDevice(tiles))


def _find_device(session: Session, device: Handle) -> Device:
    found = session.find(device) if device.number >= 0 else Device()
    assert isinstance(found, Device)
    found.getTarget()  # refuses an empty one
    return found


@handles("device.attach")
def attach(session: Session, device: Handle) -> bool:
    return _find_device(session, device).attach()


@handles("device.detach")
def detach(session: Session, device: Handle) -> None:
    _find_device(session, device).detach()


@handles("device.isAttached")
def is_attached(session: Session, device: Handle) -> bool:
    return _find_device(session, device).isAttached()


@handles("device.driverIDs")
def list_driver_ids(session: Session, device: Handle) -> Any:
    import numpy as np

    return np.array(_find_device(session, device).getDriverIDs(), dtype=np.int64)


@handles("device.attributes")
def list_attributes(session: Session, device: Handle) -> dict[str, str]:
    return {name: str(value) for name, value in _find_device(session, device).getAttributes().items()}


@handles("manager.getDevices")
def list_devices(session: Session, kind: str | None, ipus: int) -> Any:
    found = DeviceManager().getDevices(None if kind is None else TargetType(kind), ipus)
    return [_describe_device(session, device) for device in found]


@handles("manager.getDevice")
def find_device(session: Session, number: int) -> Any:
    return _describe_device(session, DeviceManager().getDevice(number))


@handles("model.figures")
def list_model_figures(session: Session, version: str) -> dict[str, float]:
    model = IPUModel(version)
    cycles = model.createDevice().getTarget().getGlobalSyncCycles()
    return {**{name: float(getattr(model, name)) for name in _MODEL}, "globalSyncCycles": cycles}


@handles("model.createDevice")
def make_model_device(
    session: Session, version: str, figures: dict[str, float], quiet: bool, options: dict[str, str]
) -> Any:
    model = IPUModel(version)
    for name in _MODEL:
        old = getattr(model, name)
        new = figures[name]
        if new != float(old):
            setattr(model, name, int(new) if isinstance(old, int) else new)
    if quiet:
        model.relativeSyncDelay = IPUModel.RelativeSyncDelayType.NO_DELAY
    return _describe_device(session, model.createDevice(options))


@handles("options.parse")
def parse_options(session: Session, text: str) -> dict[str, str]:
    try:
        found = msgspec.json.decode(text, type=dict[str, str | int | float | bool])
    except msgspec.MsgspecError as error:
        raise parse_error(f"Options are not an object of texts in JSON: {error}.") from error
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}
