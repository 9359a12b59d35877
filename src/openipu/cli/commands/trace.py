"""`openipu trace`: shows what a run did on this host.

In: `.pvti` files, or the directory that holds those of one run. Out: system.html beside them, text or JSON on standard
output, or a file for Perfetto.
"""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from rich.markup import escape

from openipu.cli.terminal import open_console, print_json
from openipu.errors import OptionError

PAGE_NAME = "system.html"
_EPILOG = """\
examples
  openipu run --trace out train.py            records while a script runs, and writes out/system.html
  PVTI_OPTIONS='{"enable":"true","directory":"out"}' python train.py      records, by the original's switch
  openipu trace out                           writes out/system.html: the files of all processes on one axis
  openipu trace out --text                    the summary in the terminal
  openipu trace out --perfetto out/run.json   the same events for Perfetto or chrome://tracing
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "trace",
        parents=[shared],
        help="show what a run did on this host: web page, text, JSON or Perfetto",
        description="Turn traces of the host into one HTML file, text, JSON, or a file that Perfetto opens.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "traces",
        nargs="+",
        metavar="DIR|FILE",
        help="what a run with PVTI_OPTIONS has written, or Chrome trace events (.json)",
    )
    parser.add_argument("--html", metavar="FILE", help=f"where to write the web page; {PAGE_NAME} beside the trace")
    parser.add_argument("--open", action="store_true", help="open the web page")
    parser.add_argument("--perfetto", metavar="FILE", help="write Chrome trace events; with .gz they are compressed")
    style = parser.add_mutually_exclusive_group()
    style.add_argument("--text", action="store_true", help="print the summary as text")
    style.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.report.system import describe_trace, render_trace_text, write_chrome_trace, write_system_page
    from openipu.trace.read import read_trace

    paths = [Path(name) for name in arguments.traces]
    trace = read_trace(*paths)
    printed = arguments.text or arguments.json
    console = open_console(stderr=printed)
    if arguments.text:
        sys.stdout.write(render_trace_text(trace))
    if arguments.json:
        print_json(describe_trace(trace))
    if arguments.perfetto:
        written = write_chrome_trace(trace, Path(arguments.perfetto))
        console.print(f"for Perfetto: {escape(str(written))}", soft_wrap=True)
    if arguments.html is not None or arguments.open or not (printed or arguments.perfetto):
        directory = paths[0] if paths[0].is_dir() else paths[0].parent
        written = write_system_page(trace, Path(arguments.html) if arguments.html else directory / PAGE_NAME)
        console.print(f"trace of {trace.event_count:,} events: {escape(str(written))}", soft_wrap=True)
        if arguments.open and not webbrowser.open(written.resolve().as_uri()):
            raise OptionError(f"No browser could be started. Open {written} yourself, or leave out --open.")
    return 0
