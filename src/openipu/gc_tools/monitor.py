"""`gc-monitor`: the devices of a partition, and which processes hold them now.

In: the pod's state. Out: two framed tables, or JSON; again and again with `--watch`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from openipu import __version__
from openipu.gc_tools.tables import Column, choose_width, draw_box, draw_head, draw_table
from openipu.gc_tools.tool import PASSED, View, look, make_parser, print_json, run_tool
from openipu.pod import Attachment, Ipu, describe_attributes
from openipu.pod.inventory import UNKNOWN, name_board

_EPILOG = """\
examples
  gc-monitor                                   once
  gc-monitor --watch 2                         every two seconds, until Ctrl-C
  gc-monitor --no-card-info --all-partitions   processes only, of all partitions
"""
_CLEAR = "\x1b[H\x1b[2J"


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser("gc-monitor", "Show the IPUs of the virtual pod and who uses them.", _EPILOG, device=False)
    parser.add_argument("--no-card-info", action="store_true", help="leave the table of devices out")
    parser.add_argument("--all-partitions", action="store_true", help="all partitions, not only one")
    parser.add_argument("-w", "--watch", type=float, metavar="SECONDS", help="show it again every so often")
    return run_tool(parser, _execute, argv)


def _execute(arguments: argparse.Namespace) -> int:
    while True:
        view = look(arguments.partition, all_partitions=arguments.all_partitions)
        if arguments.json:
            print_json(describe_view(view))
        else:
            text = "\n".join(draw_view(view, choose_width(), cards=not arguments.no_card_info)) + "\n"
            sys.stdout.write((_CLEAR if arguments.watch and sys.stdout.isatty() else "") + text)
        sys.stdout.flush()
        if not arguments.watch:
            return PASSED
        time.sleep(arguments.watch)


def describe_view(view: View) -> dict[str, object]:
    """All that the tables show, by partition."""
    partitions = []
    for name in dict.fromkeys(ipu.partition for ipu in view.ipus):
        ipus = [ipu for ipu in view.ipus if ipu.partition == name]
        partitions.append(
            {
                "name": name,
                "devices": [describe_attributes(view.pod, ipu, view.find_holder(ipu)) for ipu in ipus],
                "processes": [
                    {
                        "pid": str(one.pid),
                        "command": one.command,
                        "user": one.user,
                        "host": one.host,
                        "seconds": f"{time.time() - one.started:.0f}",
                        "ipus": [str(number) for number in one.numbers],
                    }
                    for one in view.attachments
                    if one.partition == name
                ],
            }
        )
    return {"pod": view.pod.description.name, "system": view.pod.description.system.name, "partitions": partitions}


def draw_view(view: View, width: int, *, cards: bool) -> list[str]:
    """The lines of all tables."""
    lines: list[str] = []
    for name in dict.fromkeys(ipu.partition for ipu in view.ipus):
        ipus = [ipu for ipu in view.ipus if ipu.partition == name]
        held = [one for one in view.attachments if one.partition == name]
        devices = _draw_cards(view, name, ipus, width) if cards else []
        least = len(devices[0]) if devices else 0
        if held:
            processes = _draw_processes(view, name, held, width, least)
        else:
            # A frame on each side of the table above: the original's box stands out by two, and scripts know its lines.
            processes = draw_box(f"No attached processes in partition {name}", width, least + 2 if devices else 0)
        if held and devices and len(processes[0]) > least:  # both tables are as wide as the wider one
            devices = _draw_cards(view, name, ipus, width, len(processes[0]))
        lines += [*devices, *processes]
    return lines


def _draw_cards(view: View, name: str, ipus: Sequence[Ipu], width: int, least: int = 0) -> list[str]:
    kind = "reconfigurable IPUs" if len(ipus) > 1 else "IPU"
    title = f"Partition: {name} [active] has {len(ipus)} {kind}"
    columns = [  # as wide as operators know them
        Column("IPU-M", least=13),
        Column("Serial", 3, least=20),
        Column("IPU-M SW", 4, least=8),
        Column("Server version", 2, least=14),
        Column("ICU FW", 5, least=10),
        Column("Type", least=6),
        Column("ID", least=4),
        Column("IPU#", least=6),
        Column("Routing", least=7),
    ]
    rows = [
        [
            ipu.host,
            ipu.serial,
            UNKNOWN,
            f"openipu {__version__}",
            UNKNOWN,
            name_board(view.pod),
            str(ipu.id),
            str(ipu.index),
            "DNC",
        ]
        for ipu in ipus
    ]
    table = draw_table(columns, rows, width, least)
    return [*draw_head("gc-monitor", title, len(table[0])), *table]


def _draw_processes(view: View, name: str, held: Sequence[Attachment], width: int, least: int) -> list[str]:
    title = f"Attached processes in partition {name}"
    columns = [
        Column("PID", group=title, style="cyan"),
        Column("Command", group=title, flexible=True),
        Column("Time", group=title),
        Column("User", 3, group=title),
        Column("ID", group="IPU"),
        Column("Clock", group="IPU"),
        Column("Temp", 2, group="IPU"),
        Column("Temp", 4, group="Board"),
        Column("Power", 1, group="Board"),
    ]
    clock = f"{view.pod.description.system.target.clock_hz / 1e6:.0f}MHz"
    rows = []
    for one in held:
        for number in one.numbers:
            first = number == one.first
            own = (
                [str(one.pid), _shorten_command(one.command), _format_time(time.time() - one.started), one.user]
                if first
                else [""] * 4
            )
            rows.append([*own, str(number), clock, UNKNOWN, UNKNOWN, UNKNOWN])
    return draw_table(columns, rows, width, least)


def _shorten_command(command: str) -> str:
    """Without the directory of the interpreter: what matters comes after it."""
    program, space, rest = command.partition(" ")
    return program.rpartition("/")[2] + space + rest


def _format_time(seconds: float) -> str:
    """`75` -> "1m15s"."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"
