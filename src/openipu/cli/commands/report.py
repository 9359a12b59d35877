"""`openipu report`: shows a profile that a run or a plan has written.

In: a directory or its profile.pop, perhaps a second one to compare it with; or a folder of many. Out: report.html or
comparison.html beside the first, a trace for Perfetto, text or JSON on standard output; for a folder, the list of its
reports; or the verdict on conditions, where exit code 1 says that one fails.
"""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from openipu.cli.terminal import make_table, open_console, print_json
from openipu.errors import OptionError

if TYPE_CHECKING:
    from openipu.report.listing import Entry

_EPILOG = """\
examples
  openipu report out/training                 writes out/training/report.html
  openipu report out/training --open          and opens it in the browser
  openipu report runs                         a folder of many: lists them, newest first, with links
  openipu report out/training --text          the summary in the terminal
  openipu report out/training --json | jq .fit
  openipu report out/training --perfetto run.pftrace.gz      every modelled step for ui.perfetto.dev
  openipu report before/training after/training   compares the two in every view: comparison.html beside the first
  openipu report out/training --check fits --check "peak_tile_bytes<600kB" --check "samples_per_second>1000"
  openipu report after/training before/training --check "call_cycles<=1.05x"      no more than 5 % slower
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "report",
        parents=[shared],
        help="show a profile: web page, text or JSON",
        description="Turn a profile into one HTML file that any browser opens, or print it as text or JSON.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "profile",
        metavar="DIR|profile.pop",
        help="what run --profile or plan --profile has written, or a folder of many",
    )
    parser.add_argument("other", nargs="?", metavar="DIR|profile.pop", help="a second one, to compare the first with")
    parser.add_argument("--html", metavar="FILE", help="where to write the web page; report.html beside the profile")
    parser.add_argument(
        "--perfetto", metavar="FILE", help="write the modelled execution for Perfetto; .gz compresses it"
    )
    parser.add_argument("--open", action="store_true", help="open the web page")
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 unless this holds, e.g. 'peak_tile_bytes<600kB'; may be repeated; `help` lists the figures",
    )
    style = parser.add_mutually_exclusive_group()
    style.add_argument("--text", action="store_true", help="print the summary as text")
    style.add_argument("--json", action="store_true", help="print everything but steps and variables as JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.report import (
        find_insights,
        read_profile,
        render_advice,
        render_insights,
        render_text,
        summarise,
        to_json,
        write_html,
    )
    from openipu.report.checks import FIGURES, check_profile, read_check
    from openipu.report.comparison import label_profiles, render_comparison
    from openipu.report.perfetto import write_perfetto

    if "help" in arguments.check:
        sys.stdout.write("".join(f"{name:20} {kind:6} {text}\n" for name, (kind, text, _) in FIGURES.items()))
        return 0
    checks = [read_check(text) for text in arguments.check]  # a mistake is told before anything is written
    if arguments.perfetto and arguments.other:
        raise OptionError("--perfetto takes one profile. Write a trace of each.")
    if _is_folder_of_many(Path(arguments.profile)) and not (arguments.other or arguments.perfetto or checks):
        return list_folder(arguments, Path(arguments.profile))
    path = find_profile(Path(arguments.profile))
    profile = read_profile(path)
    other, labels = None, None
    if arguments.other is not None:
        other_path = find_profile(Path(arguments.other))
        other = read_profile(other_path)
        labels = label_profiles(profile, other, (path.parent, other_path.parent))
    if arguments.text and other is not None:
        sys.stdout.write(render_comparison(summarise(profile), summarise(other)))
    elif arguments.text:
        found = render_insights(find_insights(profile))
        levers = "" if profile.advice is None else render_advice(profile.advice)
        sys.stdout.write("\n".join(filter(None, (render_text(summarise(profile)), found, levers))))
    if arguments.json:
        print_json(to_json(profile) if other is None else {"a": to_json(profile), "b": to_json(other)})
    if arguments.perfetto:
        traced = write_perfetto(profile, Path(arguments.perfetto))
        console = open_console(stderr=arguments.text or arguments.json)
        console.print(f"trace of {escape(profile.name)}: {escape(str(traced))}", soft_wrap=True)
    wants_page = arguments.html is not None or arguments.open
    if wants_page or not (arguments.text or arguments.json or arguments.perfetto or checks):
        usual = "report.html" if other is None else "comparison.html"
        written = write_html(profile, Path(arguments.html) if arguments.html else path.parent / usual, other, labels)
        # Where the page lies is a result, unless another result already has standard output.
        console = open_console(stderr=arguments.text or arguments.json)
        names = profile.name if other is None else f"{profile.name} and {other.name}"
        console.print(f"report of {escape(names)}: {escape(str(written))}", soft_wrap=True)
        _open_page(written, arguments.open)
    results = check_profile(profile, checks, other)
    for result in results:
        # A failure is told where it is seen even if standard output goes to a file.
        stream = sys.stdout if result.holds and not (arguments.text or arguments.json) else sys.stderr
        stream.write(f"{profile.name}: {result}\n")
    return 0 if all(result.holds for result in results) else 1


def _is_folder_of_many(path: Path) -> bool:
    from openipu.report.listing import find_profiles

    return path.is_dir() and not (path / "profile.pop").exists() and len(find_profiles(path)) > 1


def list_folder(arguments: argparse.Namespace, folder: Path) -> int:
    """The reports of a folder: a table, or JSON, and a page with links unless text or JSON was asked for."""
    from openipu.report.listing import LIST_NAME, describe_entries, list_reports, write_list, write_missing_pages

    entries = list_reports(folder)
    writes = arguments.html is not None or arguments.open or not (arguments.text or arguments.json)
    missing = write_missing_pages(entries) if writes else 0
    if arguments.json:
        print_json(describe_entries(entries))
    else:
        _print_entries(entries)
    if not writes:
        return 0
    written = write_list(entries, Path(arguments.html) if arguments.html else folder / LIST_NAME, folder.resolve().name)
    console = open_console(stderr=arguments.text or arguments.json)
    console.print(f"list of {len(entries):,} reports: {escape(str(written))}", soft_wrap=True)
    if missing:
        console.print(f"Without a page yet: {missing:,} older. openipu report DIR writes one.", soft_wrap=True)
    _open_page(written, arguments.open)
    return 0


def _print_entries(entries: Sequence[Entry]) -> None:
    from openipu.report.listing import format_date
    from openipu.report.units import format_bytes_of, format_cycles

    table = make_table()
    for heading in ("folder", "program", "system", "fit", "fullest tile", "cycles of a call", "date (UTC)"):
        table.add_column(heading, justify="right" if heading.startswith(("fullest", "cycles")) else "left")
    for entry in entries:
        line = entry.headline
        if line is None:
            table.add_row(escape(entry.place), "[red]cannot be read[/]", "", "", "", "", "")
            continue
        table.add_row(
            escape(entry.place),
            escape(line.name),
            escape(line.system),
            "[green]fits[/]" if line.fits else "[red]does not fit[/]",
            format_bytes_of(line.peak_bytes, line.limit_bytes),
            format_cycles(line.call_cycles),
            escape(format_date(line.created)),
        )
    open_console().print(table)


def _open_page(page: Path, wanted: bool) -> None:
    if wanted and not webbrowser.open(page.resolve().as_uri()):
        raise OptionError(f"No browser could be started. Open {page} yourself, or leave out --open.")


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
