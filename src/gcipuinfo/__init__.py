"""`gcipuinfo`: what monitors read of the IPUs: a dictionary of strings for each.

In: the state of the virtual pod. Out: attributes by the names that published clients know. Those of a process are there
only while one is attached; what only a sensor could tell is "N/A".
"""

from __future__ import annotations

import json

from openipu.gc_tools.tool import View, look
from openipu.pod import describe_attributes

DiscoverActivePartitionIPUs = 0
DiscoverAllPartitionIPUs = 1

AverageBoardTemp = "average board temp"
AverageDieTemp = "average die temp"
BoardIpuIndex = "board ipu index"
BoardSerialNumber = "board serial number"
BoardType = "board type"
Clock = "clock"
DriverVersion = "driver version"
FirmwareVersion = "firmware version"
IpuArchitecture = "ipu architecture"
IpuErrorState = "ipu error state"
IpuId = "id"
IpuPower = "ipu power"
IpuUtilisation = "ipu utilisation"
IpuUtilisationSession = "ipu utilisation (session)"
ProcessStartTime = "process start time"
RemoteBuffersSupported = "remote buffers supported"
TotalBoardPower = "total board power"
UserExecutable = "user executable"
UserName = "user name"
UserProcessId = "user process id"

NOT_AVAILABLE = "N/A"


class gcipuinfo:
    """The devices of the active partition, or of all of them."""

    def __init__(self, mode: int = DiscoverActivePartitionIPUs) -> None:
        self._all = mode == DiscoverAllPartitionIPUs
        self._updates = False
        self._view: View | None = None

    def setUpdateMode(self, update: bool) -> None:
        """True: every question reads the pod anew. False: what was read last holds until `updateData`."""
        self._updates = bool(update)

    def updateData(self) -> None:
        """Read the pod now."""
        self._view = look(all_partitions=self._all)

    def getDevices(self) -> list[dict[str, str]]:
        """All attributes of all devices."""
        if self._updates or self._view is None:
            self.updateData()
        view = self._view
        assert view is not None
        return [describe_attributes(view.pod, ipu, view.find_holder(ipu)) for ipu in view.ipus]

    def getDevicesAsJSON(self) -> str:
        """The same as text."""
        return json.dumps({"devices": self.getDevices()})

    def getNamedAttributeForAll(self, label: str) -> list[str]:
        """One attribute of every device; "N/A" where a device has none."""
        return [device.get(label, NOT_AVAILABLE) for device in self.getDevices()]

    def getNamedAttributeForDevice(self, device_id: int, label: str) -> str:
        """One attribute of one device."""
        devices = self.getDevices()
        if not 0 <= device_id < len(devices):
            raise IndexError(f"There is no device {device_id}: there are 0 to {len(devices) - 1}.")
        return devices[device_id].get(label, NOT_AVAILABLE)
