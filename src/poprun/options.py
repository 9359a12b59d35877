"""poprun's command line.

In: words, and a configuration file if one is named. Out: a namespace whose `program` is what to start. Options that
speak of hardware or of mpirun are accepted, so that old command lines work, and `NO_EFFECT` says why nothing follows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from openipu import __version__
from openipu.cli.parser import HelpText
from openipu.errors import OptionError
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from openipu.files.values import convert
from openipu.saving import save_text
from poprun.remote import DEFAULT_SHELL, SHELL_VARIABLE

NO_EFFECT = {
    "num_ilds": "there are no IPU-Link domains between processes",
    "vipu_server_host": "the virtual pod needs no server",
    "vipu_server_port": "the virtual pod needs no server",
    "vipu_server_timeout": "the virtual pod needs no server",
    "vipu_partition_attempts": "programs wait for IPUs if POPTORCH_WAIT_FOR_IPU=1",
    "vipu_cluster": "the virtual pod is one cluster",
    "vipu_allocation": "the virtual pod is one allocation",
    "update_partition": "a virtual partition is made by `openipu pod create`",
    "reset_partition": "a virtual partition needs no reset",
    "remove_partition": "a virtual partition is removed by `openipu pod remove`",
    "numa_aware": "the operating system places processes",
    "mpi_global_args": "instances are started by torchrun's launcher",
    "offline_mode": "no IPU is used in any case",
}
TIMEOUT_VARIABLE = "OPENIPU_INSTANCE_TIMEOUT"
_SWITCHES = ("update_partition", "reset_partition", "remove_partition", "numa_aware", "offline_mode", "print_topology")
_NUMBERS = ("num_replicas", "num_instances", "ipus_per_replica", "only_output_from_instance", "max_restarts", "verbose")
_Number = Annotated[int, msgspec.Meta(ge=-1, le=1 << 20)]
_LARGEST_CONFIG = 1 << 20
_NOT_STORED = ("import_config", "export_config", "overwrite_config", "node", "meeting_point", "watch_stdin", "program")

_EPILOG = f"""\
examples
  poprun --num-instances 2 --num-replicas 4 train.py --epochs 1
  poprun --host node0,node1 --num-instances 4 --num-replicas 8 python3 train.py
  poprun --num-instances 2 --num-replicas 2 --print-topology yes --only-output-from-instance 0 train.py

A program that ends in .py is run by this Python. Every instance is a process of its own; PopTorch's gradients are
summed over all of them, once an update. Other hosts are reached by `{DEFAULT_SHELL}`, or by what {SHELL_VARIABLE} says,
and need the same files in the same place. When an instance fails, all are stopped, and its exit code is poprun's.
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="poprun",
        description="Start a program as several instances that train together.",
        usage="poprun [options] program [arguments]",
        epilog=_EPILOG,
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"poprun (openipu {__version__})")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say what happens; -vv says more")
    parser.add_argument("--vv", dest="verbose", action="store_const", const=2, help=argparse.SUPPRESS)
    layout = parser.add_argument_group("layout")
    layout.add_argument("-H", "--host", help="hosts: host0,host1 or host[0-2,4]")
    layout.add_argument("--hostfile", help="a file with one host a line, instead of --host")
    layout.add_argument("--num-replicas", type=int, default=1, metavar="N", help="replicas of the whole job")
    layout.add_argument("--num-instances", type=int, default=1, metavar="N", help="processes of the whole job")
    layout.add_argument("--ipus-per-replica", type=int, default=1, metavar="N", help="IPUs of one replica")
    run = parser.add_argument_group("running")
    run.add_argument("--executable-cache-path", metavar="DIR", help="where instances share what was compiled")
    run.add_argument("--only-output-from-instance", type=int, metavar="N", help="show the output of one instance")
    run.add_argument("--print-topology", type=parse_switch, metavar="yes|no", help="show how the job is laid out")
    run.add_argument("--max-restarts", type=int, default=0, metavar="N", help="start all instances again so often")
    run.add_argument(
        "--instance-timeout",
        type=parse_seconds,
        metavar="SECONDS",
        help=f"end the job when an instance is frozen for so long (default: {TIMEOUT_VARIABLE}, else 300; 0: never)",
    )
    run.add_argument("--vipu-partition", metavar="NAME", help="the partition of the virtual pod to use")
    run.add_argument("--mpi-local-args", default="", metavar="ARGS", help="of these, -x NAME[=VALUE] is read")
    run.add_argument("--remote-shell", metavar="WORDS", help=f"how to reach a host (default: {DEFAULT_SHELL!r})")
    files = parser.add_argument_group("configuration files")
    files.add_argument("--import-config", metavar="FILE", help="read options from a JSON file; the command line wins")
    files.add_argument("--export-config", metavar="FILE", help="write the options to a JSON file, and go on")
    files.add_argument("--overwrite-config", action="store_true", help="let --export-config replace a file")
    accepted = parser.add_argument_group("accepted without effect (-v says why)")
    for name in NO_EFFECT:
        kind = parse_switch if name in _SWITCHES else str
        accepted.add_argument(f"--{name.replace('_', '-')}", type=kind, help=argparse.SUPPRESS)
    for hidden, settings in (
        ("--node", {"type": int}),
        ("--meeting-point", {}),
        ("--watch-stdin", {"action": "store_true"}),
    ):
        parser.add_argument(hidden, help=argparse.SUPPRESS, **settings)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def parse_seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds


def parse_switch(text: str) -> bool:
    """yes and no, as poprun's users write them."""
    known = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return known[text.lower()]


def parse_options(words: Sequence[str]) -> argparse.Namespace:
    """All options, with those of an imported file below those of the command line."""
    parser = build_parser()
    options = parser.parse_args(words)
    if options.import_config:
        stored = _read_config(Path(options.import_config), options)
        program = stored.pop("program", [])
        parser.set_defaults(**stored)
        options = parser.parse_args(words)
        options.program = options.program or program
    if options.program[:1] == ["--"]:
        options.program = options.program[1:]
    if not options.program:
        parser.error("there is no program to start. An example: poprun --num-instances 2 --num-replicas 2 train.py")
    if options.host and options.hostfile:
        parser.error("--host and --hostfile cannot go together")
    if options.export_config:
        _write_config(Path(options.export_config), options)
    return options


def list_without_effect(options: argparse.Namespace) -> list[str]:
    """Why options that were given do nothing."""
    given = [name for name in NO_EFFECT if getattr(options, name) is not None]
    return [f"--{name.replace('_', '-')} has no effect: {NO_EFFECT[name]}." for name in given]


def _read_config(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    known = {name for name in vars(options) if name not in _NOT_STORED} | {"program"}
    advice = f"Check the path, or write the file with --export-config. Known options: {', '.join(sorted(known))}."
    origin = Origin(f"The configuration {path}", OptionError, advice)
    stored = read_json(path, dict[str, Any], origin, _LARGEST_CONFIG)
    unknown = sorted(set(stored) - known)
    if unknown:
        raise origin.fail(f"holds {', '.join(unknown)}")
    return {name: convert(value, _choose_type(name), origin.within(name)) for name, value in stored.items()}


def _choose_type(name: str) -> Any:
    if name == "program":
        return list[str]
    if name in _SWITCHES:
        return bool
    return _Number if name in _NUMBERS else str


def _write_config(path: Path, options: argparse.Namespace) -> None:
    if path.exists() and not options.overwrite_config:
        raise OptionError(f"{path} is there already: give another name, or --overwrite-config.")
    values = {name: value for name, value in vars(options).items() if name not in _NOT_STORED and value is not None}
    save_text(path, json.dumps({**values, "program": options.program}, indent=2) + "\n")
