"""`openipu report`: shows a profile that a run or a plan has written.

In: a directory or its profile.pop. Out: report.html beside it, or text or JSON on standard output.
"""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from rich.markup import escape

from openipu.cli.terminal import open_console, print_json
from openipu.errors import OptionError

_EPILOG = """\
examples
  openipu report out/training                 writes out/training/report.html
  openipu report out/training --open          and opens it in the browser
  openipu report out/training --text          the summary in the terminal
  openipu report out/training --json | jq .fit
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "report",
        parents=[shared],
        allow_abbrev=False,
        help="show a profile: web page, text or JSON",
        description="Turn a profile into one HTML file that any browser opens, or print it as text or JSON.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("profile", metavar="DIR|profile.pop", help="what run --profile or plan --profile has written")
    parser.add_argument("--html", metavar="FILE", help="where to write the web page; report.html beside the profile")
    parser.add_argument("--open", action="store_true", help="open the web page")
    style = parser.add_mutually_exclusive_group()
    style.add_argument("--text", action="store_true", help="print the summary as text")
    style.add_argument("--json", action="store_true", help="print everything but steps and variables as JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.report import read_profile, render_text, summarise, to_json, write_html

    path = find_profile(Path(arguments.profile))
    profile = read_profile(path)
    if arguments.text:
        sys.stdout.write(render_text(summarise(profile)))
    if arguments.json:
        print_json(to_json(profile))
    wants_page = arguments.html is not None or arguments.open
    if wants_page or not (arguments.text or arguments.json):
        place = Path(arguments.html) if arguments.html else path.parent / "report.html"
        written = write_html(profile, place)
        # Where the page lies is a result, unless another result already has standard output.
        console = open_console(stderr=arguments.text or arguments.json)
        console.print(f"report of {escape(profile.name)}: {escape(str(written))}", soft_wrap=True)
        if arguments.open and not webbrowser.open(written.resolve().as_uri()):
            raise OptionError(f"No browser could be started. Open {written} yourself, or leave out --open.")
    return 0


def find_profile(path: Path) -> Path:
    """The file meant by a path. In a directory of several programs the user has to choose."""
    if not path.is_dir() or (path / "profile.pop").exists():
        return path / "profile.pop" if path.is_dir() else path
    inside = sorted(entry.parent for entry in path.glob("*/profile.pop"))
    if len(inside) == 1:
        return inside[0] / "profile.pop"
    if inside:
        choices = ", ".join(str(entry) for entry in inside)
        raise OptionError(f"{path} holds the profiles of several programs. Name one of them: {choices}.")
    return path / "profile.pop"
