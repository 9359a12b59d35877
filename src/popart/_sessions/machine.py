"""The machine that a device stands for in a plan.

In: a device. Out: the system to plan for, with as many tiles an IPU and of the architecture that the device was made
with; None for what nobody asked of it: then it is the usual system. What the command line says comes first.
"""

from __future__ import annotations

from dataclasses import replace

from openipu.machine import System, resolve_system
from openipu.overrides import read_overrides
from openipu.session import choose_system
from popart._device_manager import DeviceInfo
from popart._enumerations.devices import DeviceType
from popart._exceptions import poplar_exception

_SYSTEMS = {"ipu1": "c2", "ipu2": "m2000", "ipu21": "c600"}


def choose_machine(device: DeviceInfo) -> System | None:
    """The system of a device, where it is not the usual one."""
    asked = device._asked
    if device.type is DeviceType.Cpu or read_overrides().system is not None or not (asked.tiles or asked.version):
        return None
    system = choose_system(None)
    if asked.version and asked.version != system.target.architecture:
        found = resolve_system(_SYSTEMS[asked.version])  # with more IPUs than it has, its chips at the usual links
        system = found if device.numIpus <= found.ipus else replace(system, target=found.target)
    chip = system.target
    tiles = asked.tiles or chip.tiles
    if tiles > chip.tiles:
        raise poplar_exception(
            f"The device was made with tilesPerIPU={tiles:,}, and an IPU of {system.name} ({chip.architecture}) has "
            f"{chip.tiles:,} tiles."
        )
    name = chip.name if tiles == chip.tiles else f"{chip.name} with {tiles:,} tiles"
    return replace(system, ipus=max(system.ipus, device.numIpus), target=replace(chip, name=name, tiles=tiles))
