"""Targets, models and devices: what a graph is built for, and where an engine is loaded.

In: names of architectures, and the IPUs of the virtual pod. Out: `Target` with the figures of the machine catalog, and
`Device`. Nothing below is an IPU: a device of the pod and a model differ in how memory is judged, and who holds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any

from openipu.errors import PodError
from openipu.graph.mapped import ElementType
from openipu.machine import Provenance, Source, System, list_systems, resolve_system
from openipu.pod import Lease, Pod, describe_attributes, find_pod, list_ipus
from openipu.session import choose_system
from poplar._errors import invalid_machine_model, invalid_option, poplar_error

_DATA_PATH_BITS = 64
_MODEL_SYSTEMS = {"ipu1": "c2", "ipu2": "m2000", "ipu21": "c600"}
# The profile that is published with the matrix-vector tutorial: 6,681,766 cycles in 5,023.9 us, and 40.044 MB from and
# to the host in 6,663,550.8 cycles.
_MODEL_CLOCK_HZ = {"ipu2": 1.33e9}
_MODEL_HOST_BYTES_PER_SECOND = 8.0e9


class TargetType(Enum):
    """What a target is."""

    IPU = "IPU"
    IPU_MODEL = "IPU_MODEL"
    CPU = "CPU"


class Target:
    """The machine that a graph is built for."""

    def __init__(
        self,
        kind: TargetType,
        system: System,
        ipus: int = 1,
        *,
        min_sync_cycles: float | None = None,
        host_bytes_per_second: float | None = None,
    ) -> None:
        self._kind = kind
        self.system = system
        self._ipus = ipus
        self.min_sync_cycles = min_sync_cycles
        self.host_bytes_per_second = host_bytes_per_second

    @staticmethod
    def createCPUTarget(accurateHalf: bool = False, numIPUs: int = 1) -> Target:
        """The host's processor: one tile, no mapping needed."""
        return Target(TargetType.CPU, resolve_system(None), numIPUs)

    @staticmethod
    def createIPUTarget(numIPUs: int = 1, systemType: str = "ipu2", tilesPerIPU: int | None = None) -> Target:
        """A machine that is described, without a device: graphs are compiled for it."""
        system = _find_system(systemType)
        return Target(TargetType.IPU, _with_tiles(system, tilesPerIPU), numIPUs)

    def getTargetType(self) -> TargetType:
        return self._kind

    def getTargetArchString(self) -> str:
        return "cpu" if self._kind is TargetType.CPU else self.system.target.architecture

    def getTargetSystemString(self) -> str:
        return self.system.name

    def getNumTiles(self) -> int:
        return self._ipus * self.getTilesPerIPU()

    def getTilesPerIPU(self) -> int:
        return 1 if self._kind is TargetType.CPU else self.system.target.tiles

    def getNumIPUs(self) -> int:
        return self._ipus

    def getNumWorkerContexts(self) -> int:
        return 1 if self._kind is TargetType.CPU else self.system.target.workers_per_tile

    def getBytesPerTile(self) -> int:
        return self.system.target.tile_memory_bytes

    def getMemoryBytes(self) -> int:
        return self.getNumTiles() * self.getBytesPerTile()

    def getExchangeBytesPerCycle(self) -> int:
        return round(self.system.target.exchange_bytes_per_cycle)

    def getTileClockFrequency(self) -> int:
        return round(self.system.target.clock_hz)

    def getDataPathWidth(self) -> int:
        """In bits."""
        return _DATA_PATH_BITS

    def getVectorWidth(self, element: ElementType) -> int:
        return 1 if element.bytes * 8 > _DATA_PATH_BITS else _DATA_PATH_BITS // (8 * element.bytes)

    def getTypeSize(self, element: ElementType) -> int:
        return element.bytes

    def getTypeLimitsMaxString(self, element: ElementType) -> str:
        import numpy as np

        limits: Any = np.finfo(element.dtype) if element.is_floating else np.iinfo(element.dtype)
        return str(limits.max)

    def getMinIPUSyncDelay(self) -> int:
        return round(self.system.target.sync_cycles if self.min_sync_cycles is None else self.min_sync_cycles)

    def getMaxIPUSyncDelay(self) -> int:
        return round(self.system.target.sync_cycles)

    def getGlobalSyncCycles(self) -> int:
        return round(self.system.target.phase_launch_cycles)

    def supportsExchangeBusSharing(self) -> bool:
        return self.system.target.exchange_sharing_tiles > 1

    def getTilesPerSharedExchangeBus(self) -> int:
        return self.system.target.exchange_sharing_tiles

    def getInterleavedMemoryElementIndex(self) -> int:
        return self.getBytesPerTile() - self.system.target.tile_interleaved_bytes

    def getFp32InFp32OutConvUnitsPerTile(self) -> int:
        return self.system.target.amp_units_float

    def getFp16InFp32OutConvUnitsPerTile(self) -> int:
        return self.system.target.amp_units_half

    def getFp16InFp16OutConvUnitsPerTile(self) -> int:
        return self.system.target.amp_units_half_half_partials

    def getConvUnitMaxPipelineDepth(self) -> int:
        return 4

    def getConvUnitCoeffLoadBytesPerCycle(self) -> int:
        return self.system.target.amp_coefficient_load_bytes_per_cycle

    def getFloatVectorWidth(self) -> int:
        return 2

    def getHalfVectorWidth(self) -> int:
        return 4

    def getRptCountMax(self) -> int:
        return 0xFFFF

    def getMaxImmediateUnsigned(self) -> int:
        return 0xFFF

    def createVirtualTarget(self, numIPUs: int, tilesPerIPU: int) -> Target:
        return Target(
            self._kind,
            _with_tiles(self.system, tilesPerIPU),
            numIPUs,
            min_sync_cycles=self.min_sync_cycles,
            host_bytes_per_second=self.host_bytes_per_second,
        )

    def __repr__(self) -> str:
        return f"<Target {self._kind.value} {self.getTargetArchString()} with {self.getNumTiles()} tiles>"


class Device:
    """Where an engine is loaded."""

    def __init__(self, target: Target | None = None, number: int = 0, pod: Pod | None = None) -> None:
        self._target = target
        self._number = number
        self._pod = pod
        self._lease: Lease | None = None

    @staticmethod
    def createCPUDevice(numIPUs: int = 1) -> Device:
        return Device(Target.createCPUTarget(numIPUs=numIPUs))

    @staticmethod
    def createSimulatorDevice(target: Target, options: Mapping[str, str] | None = None) -> Device:
        return Device(target)

    def getTarget(self) -> Target:
        if self._target is None:
            raise poplar_error(
                "This device is empty. Make one with IPUModel, Device.createCPUDevice or a DeviceManager."
            )
        return self._target

    def getId(self) -> int:
        return self._number

    def getDriverIDs(self) -> list[int]:
        return list(range(self._number, self._number + self.getTarget().getNumIPUs()))

    def attach(self) -> bool:
        """Take the IPUs; False if another program holds them. A model has nothing to take."""
        if self._pod is None or self._lease is not None:
            return True
        try:
            self._lease = self._pod.attach(self.getTarget().getNumIPUs(), self._number, program="poplar")
        except PodError as error:
            raise poplar_error(str(error)) from error
        return self._lease is not None

    def detach(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    def isAttached(self) -> bool:
        return self._pod is None or self._lease is not None

    def supportsRemoteBuffers(self) -> bool:
        return True

    def hasGateway(self) -> bool:
        return self.getTarget().system.gateway_link_bytes_per_second > 0

    def reset(self) -> None:
        """There is nothing to reset: an engine starts with fresh memory when it is loaded."""

    def getAttributes(self) -> dict[str, str]:
        if self._pod is None:
            return {}
        held = self._pod.list_attachments()
        own = [ipu for ipu in list_ipus(self._pod, held) if ipu.id == self._number]
        return describe_attributes(self._pod, own[0], None) if own else {}

    def createVirtualDevice(self, tilesPerIPU: int) -> Device:
        made = Device(self.getTarget().createVirtualTarget(self.getTarget().getNumIPUs(), tilesPerIPU), self._number)
        made._pod, made._lease = self._pod, self._lease
        return made

    def __repr__(self) -> str:
        return f"<Device {self._number} {self._target!r}>"


class DeviceManager:
    """The IPUs of the virtual pod."""

    @staticmethod
    def createDeviceManager() -> DeviceManager:
        return DeviceManager()

    def _find(self) -> tuple[Pod, System]:
        pod = find_pod()
        return pod, choose_system(None) if pod.open else pod.description.system

    def getNumDevices(self) -> int:
        return len(self.getDevices())

    def getDevices(self, kind: TargetType | None = None, numIPUs: int = 1) -> list[Device]:
        """Devices of so many neighbouring IPUs; for TargetType.CPU and IPU_MODEL the one that there is."""
        if kind is TargetType.CPU:
            return [Device.createCPUDevice(numIPUs)]
        if kind is TargetType.IPU_MODEL:
            model = IPUModel()
            model.numIPUs = numIPUs
            return [model.createDevice()]
        pod, system = self._find()
        count = system.ipus if pod.open else pod.partition.ipus
        target = Target(TargetType.IPU, system, numIPUs)
        return [Device(target, first, pod) for first in range(0, count - numIPUs + 1, numIPUs)]

    def getDevice(self, number: int) -> Device:
        pod, system = self._find()
        count = system.ipus if pod.open else pod.partition.ipus
        if not 0 <= number < count:
            raise poplar_error(f"No such device set id: '{number}'. There are devices 0 to {count - 1}.")
        return Device(Target(TargetType.IPU, system), number, pod)

    def acquireDevice(self, kind: TargetType, numIPUs: int = 1) -> Device | None:
        """The first device that is free."""
        return next((device for device in self.getDevices(kind, numIPUs) if device.attach()), None)

    def getDeviceIds(self) -> list[int]:
        return [device.getId() for device in self.getDevices()]


class IPUModel:
    """A model of an IPU. Figures that are not set are those of the catalog."""

    class RelativeSyncDelayType(Enum):
        BALANCED = 0
        NO_DELAY = 1

    def __init__(self, ipuVersion: str = "ipu2") -> None:
        if ipuVersion not in _MODEL_SYSTEMS:
            raise invalid_machine_model(
                f"There is no model of {ipuVersion!r}. Known: {', '.join(_MODEL_SYSTEMS)} (Mk1, Mk2, C600)."
            )
        chip = _find_system(ipuVersion).target
        self.ipuVersion = ipuVersion
        self.IPUVersion = ipuVersion
        self.numIPUs = 1
        self.tilesPerIPU = chip.tiles
        self.numWorkerContexts = chip.workers_per_tile
        self.bytesPerTile = chip.tile_memory_bytes
        self.exchangeBytesPerCycle = chip.exchange_bytes_per_cycle
        self.clockFrequency = _MODEL_CLOCK_HZ.get(ipuVersion, chip.clock_hz)
        self.minIPUSyncDelay: float = chip.sync_cycles
        self.relativeSyncDelay = IPUModel.RelativeSyncDelayType.BALANCED
        self.hostBytesPerSecond = _MODEL_HOST_BYTES_PER_SECOND
        self.compileIPUCode = False

    def createDevice(self, options: Mapping[str, str] | None = None) -> Device:
        for name in ("numIPUs", "tilesPerIPU", "numWorkerContexts", "bytesPerTile"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise invalid_machine_model(f"IPUModel.{name} is {value!r}, and must be a whole number of at least 1.")
        if options:
            raise invalid_option(f"Unrecognised option '{next(iter(options))}'")
        system = _find_system(self.ipuVersion)
        source = Source(Provenance.USER, "IPUModel")
        published = Source(
            Provenance.PUBLISHED, "profile of the matrix-vector tutorial: 6,681,766 cycles in 5,023.9 us"
        )
        kept = min(system.target.tile_reserved_bytes, self.bytesPerTile // 8)
        chip = dataclasses.replace(
            system.target,
            tiles=self.tilesPerIPU,
            workers_per_tile=self.numWorkerContexts,
            tile_memory_bytes=self.bytesPerTile,
            tile_reserved_bytes=kept,
            tile_gap_bytes=min(system.target.tile_gap_bytes, self.bytesPerTile // 8),
            exchange_bytes_per_cycle=self.exchangeBytesPerCycle,
            clock_hz=float(self.clockFrequency),
            sources={
                **system.target.sources,
                "clock_hz": published if self.ipuVersion in _MODEL_CLOCK_HZ else system.target.sources["clock_hz"],
                **({"tiles": source} if self.tilesPerIPU != system.target.tiles else {}),
            },
        )
        quiet = self.relativeSyncDelay is IPUModel.RelativeSyncDelayType.NO_DELAY
        target = Target(
            TargetType.IPU_MODEL,
            dataclasses.replace(system, target=chip),
            self.numIPUs,
            min_sync_cycles=float(self.minIPUSyncDelay) if quiet else max(self.minIPUSyncDelay, chip.sync_cycles),
            host_bytes_per_second=float(self.hostBytesPerSecond),
        )
        return Device(target)


def _find_system(version: str) -> System:
    systems = list_systems()
    name = _MODEL_SYSTEMS.get(version, version)
    if name not in systems:
        raise invalid_machine_model(f"There is no system {version!r}. Known: {', '.join((*_MODEL_SYSTEMS, *systems))}.")
    return systems[name]


def _with_tiles(system: System, tiles: int | None) -> System:
    if tiles is None:
        return system
    return dataclasses.replace(system, target=dataclasses.replace(system.target, tiles=tiles))
