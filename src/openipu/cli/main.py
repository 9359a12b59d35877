"""Reads the shell's words, starts one command, and turns openipu's own errors into one message and exit code 2."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from openipu import __version__
from openipu.cli import commands
from openipu.errors import OpenIpuError

DEBUG_VARIABLE = "OPENIPU_DEBUG"

_EPILOG = """\
examples
  openipu run train.py --epochs 1                  run an unmodified script, then say what an IPU would do
  openipu run --profile out --system pod16 train.py   the same for another machine, with a report to open
  openipu plan examples/plan_models.py:bert_base   cost and memory of a model, without weights, without running
  openipu report out/training                      write the HTML report of a profile
  openipu systems bow-2000                         every figure of a machine, with its source
  openipu cache prune --older-than 30d             make room: remove compiled programs that nobody uses
  openipu doctor                                   what works here, and what to do about the rest

The machine is --system, else the environment variable OPENIPU_SYSTEM, else bow-2000. It is a name that
`openipu systems` lists, or a TOML file of your own. All cycles, bytes and rates are modelled: no IPU is used.
Exit codes: 0 done, 1 the check asked for failed, 2 wrong usage or an error that the message explains.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser()
    own, script = commands.run.split_script(words)
    arguments = parser.parse_args(own)
    if arguments.command is None:
        parser.print_help()
        return 0
    if arguments.command == "run":
        arguments.script = script
    debug = arguments.debug or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    try:
        return int(arguments.execute(arguments))
    except OpenIpuError as error:
        if debug:
            traceback.print_exc()
        sys.stderr.write(f"openipu {arguments.command}: {error}\n")
        return 2
    except BrokenPipeError:
        # The reader of our output, such as `head`, has left: not an error. Keeps Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each command adds its own options, in its own module."""
    parser = argparse.ArgumentParser(
        prog="openipu",
        description="Run, test, profile and plan IPU programs on any machine: no IPU, no SDK. Unofficial.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"openipu {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error, not only its message")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    subparsers = parser.add_subparsers(dest="command", metavar="command", title="commands")
    for command in commands.ALL:
        command.add_parser(subparsers, shared)
    return parser
