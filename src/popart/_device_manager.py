"""Devices: `DeviceManager`, which makes them, and `DeviceInfo`.

In: numbers of IPUs, ids, options. Out: a CPU, a modelled IPU, or IPUs of the virtual pod, held for this process while
they are attached. All of them run programs on this host; the kind decides what is checked and reported.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openipu.errors import PodError, TargetError
from openipu.machine import resolve_system
from openipu.pod import LARGEST_LEASE, Lease, find_pod
from openipu.session import choose_system
from popart._enumerations.devices import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern
from popart._exceptions import popart_exception, poplar_exception

INSTALLED_IPUS = 16
WORKERS = 6
_MODEL_OPTIONS = ("numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion")
_OFFLINE_OPTIONS = ("numIPUs", "tilesPerIPU", "compileIPUCode", "ipuVersion", "syncPattern")
_VERSIONS = ("ipu1", "ipu2", "ipu21")


@dataclass(frozen=True)
class Asked:
    """What whoever made a device asked of its IPUs, for the plan; 0 and "" where they did not."""

    tiles: int = 0
    version: str = ""


class DeviceInfo:
    """A device that sessions are made for."""

    def __init__(
        self,
        kind: DeviceType,
        ipus: int,
        tiles: int,
        *,
        connection: DeviceConnectionType = DeviceConnectionType.Always,
        first: int | None = None,
        version: str = "ipu2",
        pattern: SyncPattern = SyncPattern.Full,
        asked: Asked = Asked(),  # noqa: B008 (frozen)
    ) -> None:
        self._kind, self._ipus, self._tiles = kind, ipus, tiles
        self._asked = asked
        self._connection, self._first, self._version = connection, first, version
        self._pattern = pattern
        self._lease: Lease | None = None
        self._give_back: Any = None

    @property
    def type(self) -> DeviceType:
        """Cpu, IpuModel, Ipu, OfflineIpu or Sim."""
        return self._kind

    @property
    def connectionType(self) -> DeviceConnectionType:
        """When it is attached."""
        return self._connection

    @property
    def version(self) -> str:
        """The version of the device."""
        return self._version

    @property
    def ipuVersion(self) -> str:
        """The version of its IPUs."""
        return self._version

    @property
    def id(self) -> int:
        """Its place in the pod."""
        return self._first or 0

    @property
    def numIpus(self) -> int:
        """How many IPUs it has."""
        return self._ipus

    @property
    def tilesPerIPU(self) -> int:
        """How many tiles each of them has."""
        return self._tiles

    @property
    def tilesPerIpu(self) -> int:
        """How many tiles each of them has."""
        return self._tiles

    @property
    def driverIds(self) -> list[int]:
        """The numbers of its IPUs."""
        return list(range(self.id, self.id + self._ipus))

    @property
    def numWorkerContexts(self) -> int:
        """Worker threads of a tile."""
        return WORKERS

    @property
    def isAttached(self) -> bool:
        """Does this process hold it?"""
        return self._kind is not DeviceType.Ipu or self._lease is not None

    def attach(self) -> bool:
        """Take the IPUs; False where somebody else has them."""
        if self._kind is not DeviceType.Ipu or self._lease is not None:
            return True
        try:
            pod = find_pod()
            installed = pod.partition.ipus if not pod.open else INSTALLED_IPUS
            self._lease = pod.attach(self._ipus, self._first, program="popart", installed=installed)
        except PodError:
            return False
        if self._lease is None:
            return False
        self._first = self._lease.first
        self._give_back = weakref.finalize(self, self._lease.release)
        return True

    def tryAttachUntilTimeout(self) -> bool:
        """Take the IPUs; False where somebody else has them."""
        return self.attach()

    def detach(self) -> None:
        """Give the IPUs back."""
        if self._lease is not None:
            self._give_back()
            self._lease = None

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, *details: object) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"Device Type:{self._kind.name}, Connection Type:{self._connection.name}, numIpus:{self._ipus}"


class DeviceManager:
    """Finds and makes devices."""

    _timeout = 0

    def createCpuDevice(self) -> DeviceInfo:
        """The host itself."""
        return DeviceInfo(DeviceType.Cpu, 1, 1, version="cpu")

    def createIpuModelDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """A modelled IPU: numIPUs, tilesPerIPU (4), ipuVersion, compileIPUCode."""
        return self._make(DeviceType.IpuModel, options, _MODEL_OPTIONS, "createIpuModelDevice", 4)

    def createSimDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """A simulated IPU: the same as a modelled one."""
        return self._make(DeviceType.Sim, options, _MODEL_OPTIONS, "createSimDevice", 4)

    def createOfflineIPUDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """An IPU to compile for, without running."""
        return self._make(DeviceType.OfflineIpu, opts, _OFFLINE_OPTIONS, "createOfflineIPUDevice", 0)

    def createOfflineIpuFromDeviceInfo(self, deviceInfo: DeviceInfo) -> DeviceInfo:
        """An IPU to compile for, like another device."""
        return DeviceInfo(
            DeviceType.OfflineIpu,
            deviceInfo.numIpus,
            deviceInfo.tilesPerIPU,
            connection=DeviceConnectionType.Never,
            version=deviceInfo.ipuVersion,
            asked=deviceInfo._asked,
        )

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        """IPUs of a named system to compile for: an architecture, or a name such as "IPU-POD16"."""
        if system in _VERSIONS:
            return self.createOfflineIPUDevice({"numIPUs": numIpus, "ipuVersion": system})
        try:
            chip = resolve_system(system.lower().removeprefix("ipu-")).target
        except TargetError as error:
            raise poplar_exception(f"{error}") from error
        return self.createOfflineIPUDevice({"numIPUs": numIpus, "ipuVersion": chip.architecture})

    def _make(
        self, kind: DeviceType, options: Mapping[str, Any], known: tuple[str, ...], method: str, tiles: int
    ) -> DeviceInfo:
        for name in options:
            if name not in known:
                raise popart_exception(f"Invalid option `{name}' passed to {method}. Known are {', '.join(known)}.")
        version = str(options.get("ipuVersion", "ipu2"))
        if version not in _VERSIONS:
            raise popart_exception(f"Unknown ipuVersion {version!r}. Known are {', '.join(_VERSIONS)}.")
        ipus = int(options.get("numIPUs", 1))
        wished = int(options.get("tilesPerIPU", 0))
        if wished < 0:
            raise popart_exception(f"tilesPerIPU is a number of tiles, not {wished}.")
        each = wished or (0 if "tilesPerIPU" in options else tiles) or choose_system(None).target.tiles
        asked = Asked(wished, version if "ipuVersion" in options else "")
        never = DeviceConnectionType.Never if kind is DeviceType.OfflineIpu else DeviceConnectionType.Always
        return DeviceInfo(kind, ipus, each, version=version, connection=never, asked=asked)

    def acquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo:
        """IPUs of the pod that nobody holds."""
        found = self.tryAcquireAvailableDevice(numIpus, tilesPerIpu, pattern, connectionType, selectionCriterion)
        if found is None:
            raise popart_exception(
                f"Failed to acquire device with {numIpus} IPUs. Ensure that there are sufficient IPUs available, and "
                "that other sessions have detached theirs."
            )
        return found

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        selectionCriterion: DeviceSelectionCriterion = DeviceSelectionCriterion.First,
    ) -> DeviceInfo | None:
        """IPUs of the pod that nobody holds, or None."""
        if numIpus > LARGEST_LEASE:
            return None
        return self._offer(numIpus, tilesPerIpu, pattern, connectionType, None)

    def acquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo:
        """One IPU of the pod."""
        found = self.tryAcquireDeviceById(id, pattern, connectionType)
        if found is None:
            raise popart_exception(f"Failed to acquire device with id '{id}'. Ensure that it is available.")
        return found

    def tryAcquireDeviceById(
        self,
        id: int,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
    ) -> DeviceInfo | None:
        """One IPU of the pod, or None where somebody has it."""
        if not 0 <= id < self._count():
            raise poplar_exception(f"No such device set id: '{id}'")
        return self._offer(1, 0, pattern, connectionType, id)

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: DeviceConnectionType = DeviceConnectionType.Always,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """The devices with so many IPUs that there are."""
        tiles = tilesPerIPU or choose_system(None).target.tiles
        return [
            DeviceInfo(
                deviceType,
                numIpus,
                tiles,
                connection=connectionType,
                first=first,
                pattern=pattern,
                asked=Asked(tilesPerIPU),
            )
            for first in range(0, self._count() - numIpus + 1, numIpus)
        ]

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """How long a session waits for its device."""
        type(self)._timeout = attachTimeout

    @staticmethod
    def _count() -> int:
        pod = find_pod()
        return INSTALLED_IPUS if pod.open else pod.partition.ipus

    def _offer(
        self, ipus: int, tiles: int, pattern: SyncPattern, connection: DeviceConnectionType, first: int | None
    ) -> DeviceInfo | None:
        if ipus > self._count():
            return None
        each = tiles or choose_system(None).target.tiles
        asked = Asked(tiles)
        device = DeviceInfo(
            DeviceType.Ipu, ipus, each, connection=connection, first=first, pattern=pattern, asked=asked
        )  # fmt: skip
        if connection is DeviceConnectionType.Always and not device.attach():
            return None
        return device
