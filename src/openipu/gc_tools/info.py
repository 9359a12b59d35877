"""`gc-info`: which devices there are, and what they are.

In: a command such as `-l`. Out: the listing, or JSON. It only looks: no device is attached.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from openipu.errors import PodError
from openipu.gc_tools.tables import paint
from openipu.gc_tools.tool import PASSED, View, look, make_parser, print_json, run_tool
from openipu.pod import Ipu, describe_attributes
from openipu.pod.inventory import MODELLED

_EPILOG = """\
examples
  gc-info -l                     list the devices of the partition
  gc-info --device-info -d 0     all attributes of one
  gc-info --ipu-count            a number, for scripts
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-info", "Show which IPUs the virtual pod has.", _EPILOG)
    command = parser.add_mutually_exclusive_group(required=True)
    command.add_argument("-l", "--list-devices", action="store_true", help="list devices, single and grouped")
    command.add_argument("-i", "--device-info", action="store_true", help="all attributes (with -d, of one device)")
    command.add_argument("--ipu-count", action="store_true", help="how many IPUs there are")
    command.add_argument("--ipu-arch", action="store_true", help="their architecture")
    command.add_argument("--tile-clock-speed", action="store_true", help="their clock")
    command.add_argument("--tile-overview", action="store_true", help="tiles and their memory")
    command.add_argument("--tile-status", metavar="TILE", help="not modelled: says so")
    parser.add_argument("--all-partitions", action="store_true", help="devices of all partitions")
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    view = look(arguments.partition, all_partitions=arguments.all_partitions)
    target = view.pod.description.system.target
    if arguments.tile_status is not None:
        raise PodError("Registers and states of single tiles are not modelled: only what a whole program costs is.")
    if arguments.list_devices:
        _print_listing(view, arguments)
    elif arguments.device_info:
        devices = [
            describe_attributes(view.pod, ipu, view.find_holder(ipu)) for ipu in view.choose(arguments.device_id)
        ]
        if arguments.json:
            print_json({"devices": devices})
        else:
            print_attributes(devices)
    elif arguments.tile_overview:
        facts = {
            "tiles": str(target.tiles),
            "workers per tile": str(target.workers_per_tile),
            "tile memory bytes": str(target.tile_memory_bytes),
            "interleaved bytes": str(target.tile_interleaved_bytes),
            "reserved bytes": str(target.tile_reserved_bytes),
            "ipu memory bytes": str(target.memory_bytes),
        }
        _print_answer(facts, arguments.json)
    else:
        answer = {
            "ipu count": str(len(view.choose(arguments.device_id))) if arguments.ipu_count else None,
            "ipu architecture": target.architecture if arguments.ipu_arch else None,
            "clock": f"{target.clock_hz / 1e6:.0f}MHz" if arguments.tile_clock_speed else None,
        }
        chosen = {name: value for name, value in answer.items() if value is not None}
        if arguments.json:
            print_json(chosen)
        else:
            print(*chosen.values())
    return PASSED


def list_groups(ipus: Sequence[Ipu]) -> list[tuple[int, list[Ipu]]]:
    """Devices of several IPUs: every aligned power of two, numbered after the single ones."""
    groups = []
    number, size = len(ipus), 2
    while size <= len(ipus):
        for first in range(0, len(ipus) - size + 1, size):
            groups.append((number, list(ipus[first : first + size])))
            number += 1
        size *= 2
    return groups


def _print_listing(view: View, arguments: argparse.Namespace) -> None:
    partitions = list(dict.fromkeys(ipu.partition for ipu in view.ipus))
    listing = {name: [ipu for ipu in view.ipus if ipu.partition == name] for name in partitions}
    if arguments.json:
        print_json({"partitions": [_describe_partition(name, ipus) for name, ipus in listing.items()]})
        return
    print("Graphcore device listing (virtual pod):")
    for name, ipus in listing.items():
        print(f"\nPartition: {paint(name, 'bold')} [{paint('active', 'green')}]\n")
        for ipu in ipus:
            print(f"-+- Id: [{ipu.id}], target: [{MODELLED}], IPU-M host: [{ipu.host}], IPU#: [{ipu.index}]")
        for number, members in list_groups(ipus):
            print(f"-+- Id: [{number}], target: [Multi IPU]")
            for place, ipu in enumerate(members):
                print(f" |--- Id: [{ipu.id}], DNC Id: [{place}], IPU-M host: [{ipu.host}], IPU#: [{ipu.index}]")


def _describe_partition(name: str, ipus: Sequence[Ipu]) -> dict[str, object]:
    single = [
        {"id": str(ipu.id), "target": MODELLED, "ipum host": ipu.host, "board ipu index": str(ipu.index)}
        for ipu in ipus
    ]
    multi = [
        {"id": str(number), "target": "Multi IPU", "ipus": [str(ipu.id) for ipu in members]}
        for number, members in list_groups(ipus)
    ]
    return {"name": name, "state": "active", "devices": single + multi}


def print_attributes(devices: Sequence[dict[str, str]]) -> None:
    for device in devices:
        print(paint(f"Device Id: [{device['id']}]", "bold"))
        for name, value in device.items():
            if name != "id":
                print(f"  {name}: {value}")


def _print_answer(facts: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        print(f"{name}: {value}")
