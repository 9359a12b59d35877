"""The device of a session.

In: "cpu", "ipu_model", "ipu_hw", the name of a system, or a device of PopART's. Out: an `Attachment`, which takes IPUs
of the virtual pod where the device has some.
"""

from __future__ import annotations

import math
import os

from popart import DeviceInfo, DeviceManager, DeviceType, popart_exception, poplar_exception
from popxl.graph import Graph
from popxl.ir import Ir

OFFLINE_VARIABLE = "POPXL_OFFLINE_DEVICE"


class Attachment:
    """A device, and whether the session holds it."""

    def __init__(self, device: DeviceInfo, attached: bool) -> None:
        self.device, self.attached = device, attached
        self._compiled_for = device

    def attach(self) -> None:
        """Take the device; for one that programs are only compiled for, IPUs like it."""
        if self._compiled_for.type is DeviceType.OfflineIpu:
            found = DeviceManager().enumerateDevices(numIpus=self._compiled_for.numIpus)
            if not found:
                raise RuntimeError(_describe_lack(self._compiled_for.numIpus))
            self.device = next((device for device in found if device.attach()), found[0])
        if not (self.device.isAttached or self.device.attach()):
            raise RuntimeError(f"Device {self.device.id} is held by another process: `gc-monitor` shows which.")
        self.attached = True

    def detach(self) -> None:
        """Give the device back."""
        self.device.detach()
        self.device, self.attached = self._compiled_for, False


def _describe_lack(ipus: int) -> str:
    return (
        f"No device with {ipus} free IPUs was found. `gc-monitor` shows what this pod has and who holds it; "
        "`gc-info -l` lists it."
    )


def count_ipus(ir: Ir) -> int:
    """The IPUs of all replicas: a power of two."""
    if not ir.main_graph._ops:
        raise RuntimeError(
            f"The program {ir.id} has no graphs with ops in them: build some in `with ir.main_graph:` first."
        )
    each = max(_list_ipus(ir.main_graph, set()), default=0) + 1
    return int(2 ** math.ceil(math.log2(each * ir.instance_replication_factor)))


def _list_ipus(graph: Graph, seen: set[Graph]) -> set[int]:
    seen.add(graph)
    found = {op.place.ipu for op in graph._ops} | {op.ipu for op in graph._ops}
    for op in graph._ops:
        for called in op.called:
            if called not in seen:
                found |= _list_ipus(called, seen)
    return found


def choose_device(wished: str | DeviceInfo, ipus: int, replicas: int) -> Attachment:
    """The device of a description."""
    if isinstance(wished, DeviceInfo):
        return Attachment(wished, wished.isAttached and wished.type is not DeviceType.OfflineIpu)
    manager = DeviceManager()
    offline = os.environ.get(OFFLINE_VARIABLE)
    if offline:
        return Attachment(manager.createOfflineIpuFromSystemString(offline, ipus), False)
    if wished == "cpu":
        if ipus > 1:
            raise ValueError(
                f"A `cpu` device is a single one, and this program wants {ipus}. Use `ipu_model`, or a system by "
                "its name."
            )
        return Attachment(manager.createCpuDevice(), False)
    if wished == "ipu_model":
        return Attachment(manager.createIpuModelDevice({"numIPUs": ipus}), False)
    if wished == "ipu_hw":
        found = manager.enumerateDevices(numIpus=ipus)
        if not found:
            raise RuntimeError(_describe_lack(ipus))
        return Attachment(manager.createOfflineIpuFromDeviceInfo(found[0]), False)
    try:
        return Attachment(manager.createOfflineIpuFromSystemString(wished, ipus), False)
    except (popart_exception, poplar_exception):
        raise ValueError(f"Incorrect device type {wished!r}: choose `ipu_hw`, `ipu_model` or `cpu`.") from None
