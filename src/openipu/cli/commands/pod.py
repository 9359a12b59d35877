"""`openipu pod`: set up the virtual pod that programs attach to, show it, remove it.

In: a system and partitions. Out: the pod file of this user, or a table of it. Where no pod is set up, programs never
wait for each other; with one they share its IPUs as on a real one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.markup import escape

from openipu.cli.terminal import make_table, open_console, print_json
from openipu.errors import OptionError
from openipu.machine import resolve_system
from openipu.pod import find_pod, remove_pod, set_up_pod
from openipu.pod.description import describe_pod

_EPILOG = """\
examples
  openipu pod create bow-pod16                                  one partition over all 16 IPUs
  openipu pod create bow-pod16 --partition a:4 --partition b:8  two partitions
  openipu pod show                                              partitions, and who holds what
  openipu pod remove                                            back to the open pod, which refuses nobody

Programs use the first partition, or the one that IPUOF_VIPU_API_PARTITION_ID names. POPTORCH_WAIT_FOR_IPU=1 lets a
program wait for IPUs instead of failing. OPENIPU_POD (a system, a pod file, or `open`) overrides all this.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "pod",
        parents=[shared],
        help="set up or show the virtual pod",
        description="Set up the virtual pod that programs and the gc-* commands share, show it, or remove it.",
        epilog=_EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    create = actions.add_parser("create", help="set up a pod for this user")
    create.add_argument("system", help="a name of the catalog, or a TOML file")
    create.add_argument("--name", help="of the pod (default: the system's)")
    create.add_argument(
        "--partition", action="append", default=[], metavar="NAME:IPUS", help="neighbouring IPUs; may be given again"
    )
    create.add_argument("--fabric-files", metavar="DIR", help="also write a file for IPUOF_CONFIG_PATH a partition")
    show = actions.add_parser("show", help="partitions, and who holds what")
    show.add_argument("--json", action="store_true", help="print JSON")
    actions.add_parser("remove", help="forget the pod that was created")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.action == "create":
        return _create(arguments)
    if arguments.action == "remove":
        return _remove()
    return _show(arguments.json)


def _create(arguments: argparse.Namespace) -> int:
    system = resolve_system(arguments.system)
    partitions = [_parse_partition(text) for text in arguments.partition]
    pod = describe_pod(arguments.name or system.name, system, partitions, origin="openipu pod create")
    own_file = str(Path(arguments.system).absolute()) if arguments.system.endswith(".toml") else None
    path = set_up_pod(pod, own_file, Path(arguments.fabric_files) if arguments.fabric_files else None)
    open_console().print(f"Pod [bold]{escape(pod.name)}[/] is set up: {path}")
    return _show(False)


def _remove() -> int:
    remove_pod()
    open_console().print("The pod is removed. Programs use the open pod, which refuses nobody.")
    return 0


def _show(as_json: bool) -> int:
    pod = find_pod()
    held = pod.list_attachments(all_partitions=True)
    partitions = pod.description.partitions
    document: dict[str, Any] = {
        "name": pod.description.name,
        "system": pod.description.system.name,
        "open": pod.open,
        "origin": pod.description.origin,
        "partitions": [
            {
                "name": partition.name,
                "first": partition.first,
                "ipus": partition.ipus,
                "processes": [
                    {"pid": one.pid, "command": one.command, "ipus": list(one.numbers)}
                    for one in held
                    if one.partition == partition.name
                ],
            }
            for partition in partitions
        ],
    }
    if as_json:
        print_json(document)
        return 0
    console = open_console()
    kind = "open: it has as many IPUs as programs ask for" if pod.open else escape(pod.description.origin)
    console.print(f"[bold]{escape(pod.description.name)}[/]  {escape(pod.description.system.name)}  ({kind})\n")
    table = make_table()
    for heading in ("partition", "IPUs", "held", "by processes"):
        table.add_column(heading)
    for entry in document["partitions"]:
        processes = entry["processes"]
        count = sum(len(process["ipus"]) for process in processes)
        ipus = str(entry["ipus"]) if not pod.open else f"{entry['ipus']} or more"
        table.add_row(escape(entry["name"]), ipus, str(count), ", ".join(str(process["pid"]) for process in processes))
    console.print(table)
    return 0


def _parse_partition(text: str) -> tuple[str, int]:
    name, colon, count = text.rpartition(":")
    if not colon or not name or not count.isdigit():
        raise OptionError(f"--partition {text!r} is not NAME:IPUS, such as p0:4.")
    return name, int(count)
