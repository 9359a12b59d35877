"""Reads the shell's words, starts one command, and turns openipu's own errors into one message and exit code 2."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType

from openipu import __version__
from openipu.cli import commands
from openipu.cli.parser import Parser
from openipu.cli.terminal import drop_closed_streams, write_message
from openipu.errors import OpenIpuError, is_debugging

_EPILOG = """\
examples
  openipu run train.py --epochs 1                  run an unmodified script, then say what an IPU would do
  openipu run --profile out --system pod16 train.py   the same for another machine, with a report to open
  openipu plan examples/plan_models.py:bert_base   cost and memory of a model, without weights, without running
  openipu export models.py:job -o model.onnx       leave openipu: plain ONNX or PyTorch, checked
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
    debug = arguments.debug or is_debugging()
    show = sys.excepthook
    try:
        return _execute(arguments, debug)
    except BrokenPipeError:  # the reader of our output, such as `head`, has left: not an error
        drop_closed_streams()
        return 0
    except KeyboardInterrupt:
        if sys.excepthook is show and not debug:  # not that of a script, which is shown as plain Python shows it
            sys.excepthook = _show_nothing
        raise  # the interpreter ends by the signal, as a shell expects


def _execute(arguments: argparse.Namespace, debug: bool) -> int:
    try:
        code = int(arguments.execute(arguments))
    except OpenIpuError as error:
        if debug:
            traceback.print_exc()
        write_message(f"openipu {arguments.command}: {error}")
        code = 2
    sys.stdout.flush()  # a reader that has left is noticed here, not when Python ends
    return code


def _show_nothing(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Whoever pressed Ctrl-C knows what happened."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Each command adds its own options, in its own module."""
    parser = Parser(
        prog="openipu",
        description="Run, test, profile and plan IPU programs on any machine: no IPU, no SDK. Unofficial.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"openipu {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error, not only its message")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    subparsers = parser.add_subparsers(dest="command", metavar="command", title="commands")
    for command in commands.ALL:
        command.add_parser(subparsers, shared)
    return parser
