"""`openipu compare`: why one plan is faster or smaller than another, in terms that add up exactly.

In: two profiles, or functions that return planning jobs. Out: two tables of terms, or JSON.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from openipu.cli.model_options import add_model_options, is_model_file, read_sizes
from openipu.cli.terminal import make_table, open_console, print_json

if TYPE_CHECKING:
    from openipu.explore.compare import Change, Term
    from openipu.model_files import Sizes
    from openipu.report import Profile

_EPILOG = """\
examples
  openipu compare before/training after/training              two profiles
  openipu compare models.py:small models.py:large             two jobs, planned now
  openipu compare models.py:small models.py:small --system m2000 --with-system bow-2000   one job on two machines

The terms of each table add up to the difference in its last line, exactly.
"""
_GROUPINGS = ("family", "module", "kind", "op")
_NEGLIGIBLE = Fraction(1, 10**9)  # of the whole: such differences share a line


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "compare",
        parents=[shared],
        help="why two plans differ, in terms that add up",
        description="Compare two plans: time for a sample and bytes on the fullest tile, term by term.",
        epilog=_EPILOG,
    )
    parser.add_argument("before", metavar="A", help="a profile, or module:function, script.py:function or a model file")
    parser.add_argument("after", metavar="B", help="what to compare it with")
    parser.add_argument("--system", metavar="NAME|FILE.toml", help="the machine to plan jobs for")
    parser.add_argument("--with-system", metavar="NAME|FILE.toml", help="another machine for B")
    parser.add_argument("--by", choices=_GROUPINGS, default="family", help="what a term of the time is")
    parser.add_argument("--top", type=int, default=12, metavar="N", help="terms to show; the rest in one line (12)")
    parser.add_argument("--json", action="store_true", help="print all terms as JSON")
    add_model_options(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.explore.compare import Grouping, compare_plans

    sizes = read_sizes(arguments, arguments.before, arguments.after)
    before = _load(arguments.before, arguments.system, sizes)
    after = _load(arguments.after, arguments.with_system or arguments.system, sizes)
    found = compare_plans(before, after, Grouping(arguments.by))
    if arguments.json:
        print_json(found.describe())
        return 0
    console = open_console()
    console.print(
        f"[bold]{escape(before.name)}[/] on {escape(before.system.name)}  against  "
        f"[bold]{escape(after.name)}[/] on {escape(after.system.name)}; modelled, {found.speedup:.3g} x as fast\n"
    )
    for title, changes in (("options", found.options), ("machine", found.figures)):
        for name, (was, now) in changes.items():
            console.print(f"  {title}: {escape(name)} {escape(str(was))} -> {escape(str(now))}", soft_wrap=True)
    _print_change(console, found.time, 1e6, "µs", arguments.top)
    _print_change(console, found.memory, 1.0, "B", arguments.top)
    return 0


def _load(place: str, system: str | None, sizes: Sizes) -> Profile:
    """A profile that was written, or a job that is planned now."""
    from openipu.cli.commands.report import find_profile
    from openipu.report import build_profile, read_profile

    path = Path(place)
    from openipu.cli.targets import load_job

    if path.exists() and path.suffix != ".py" and not is_model_file(place):
        return read_profile(find_profile(path))
    from openipu.jobs import run_job

    return build_profile(run_job(load_job(place, sizes), system))


def _print_change(console: Console, change: Change, scale: float, unit: str, top: int) -> None:
    table = make_table(f"\n{change.quantity}, {unit}")
    table.add_column("term", no_wrap=True)
    for heading in ("A", "B", "difference"):
        table.add_column(heading, justify="right")

    def add(name: str, before: Fraction, after: Fraction, difference: Fraction) -> None:
        form = ",.0f" if unit == "B" else ",.4g"
        sides = [f"{float(side) * scale:{form}}" if side else "" for side in (before, after)]
        shown = difference if abs(difference) > visible else Fraction()  # nobody reads +5.143e-16
        table.add_row(name, *sides, f"{float(shown) * scale:+{form}}")

    visible = abs(change.before) * _NEGLIGIBLE
    shown = [term for term in change.terms[:top] if abs(term.difference) > visible]
    hidden = change.terms[len(shown) :]  # the largest differences come first
    for term in shown:
        add(escape(term.name), term.before, term.after, term.difference)
    if hidden:
        rest = [sum(values, Fraction()) for values in zip(*map(_list_sides, hidden), strict=True)]
        add(f"{len(hidden)} more", *rest)
    add("[bold]sum[/]", change.before, change.after, change.difference)
    console.print(table)


def _list_sides(term: Term) -> tuple[Fraction, Fraction, Fraction]:
    return term.before, term.after, term.difference
