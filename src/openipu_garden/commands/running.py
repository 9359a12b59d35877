"""`openipu garden run`: trains small versions and says how good they became.

Exit code 1 if one of them is not as good as its goal says. With --all, families whose framework is not installed are
left out, and named.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from openipu.cli.rows import Column, print_rows
from openipu.cli.terminal import open_console, print_json, write_message
from openipu.errors import OptionError
from openipu.report.units import format_seconds
from openipu_garden.commands.listing import describe_goal
from openipu_garden.family import Family
from openipu_garden.registry import find_family, list_families
from openipu_garden.training import MissingFrameworkError, Outcome, Tell, train_family

_COLUMNS = (
    Column("family", figures=False),
    Column("front end", figures=False, spare=2),
    Column("measure", words=True),
    Column("reached"),
    Column("goal"),
    Column("by guessing", spare=1),
    Column("took", spare=3),
    Column("", figures=False),
)


def execute(arguments: argparse.Namespace) -> int:
    if arguments.all == bool(arguments.names):
        raise OptionError("Name the families to train, or give --all for every one of them, not both.")
    families = list_families() if arguments.all else tuple(find_family(name) for name in arguments.names)
    outcomes, absent = [], []
    with _show_progress() as show:
        for family in families:
            try:
                outcomes.append(train_family(family, show(family)))
            except MissingFrameworkError as error:
                if not arguments.all:
                    raise
                absent.append(str(error))
    if arguments.json:
        print_json([describe_outcome(outcome) for outcome in outcomes])
    else:
        _print_outcomes(outcomes)
    for reason in absent:
        write_message(f"openipu garden run: left out: {reason}")
    missed = [outcome for outcome in outcomes if not outcome.reached]
    for outcome in missed:
        write_message(
            f"openipu garden run: {outcome.family.name} reached {outcome.family.goal.measure} {outcome.quality:.4g}, "
            f"but {outcome.family.goal} was expected; its loss went from {outcome.first_loss:.3g} to "
            f"{outcome.last_loss:.3g}. Seeds are fixed, so this is a defect, or another version of PyTorch: "
            "`openipu doctor` says which one is tested."
        )
    return 1 if missed else 0


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain data."""
    return {
        "name": outcome.family.name,
        "front_end": outcome.family.front_end.value,
        "goal": describe_goal(outcome.family),
        "quality": outcome.quality,
        "reached": outcome.reached,
        "first_loss": outcome.first_loss,
        "last_loss": outcome.last_loss,
        "seconds": outcome.seconds,
        "fits": outcome.fits,
        "modelled_samples_per_second": outcome.modelled_samples_per_second,
    }


def _print_outcomes(outcomes: list[Outcome]) -> None:
    rows = [
        (
            f"[bold]{escape(outcome.family.name)}[/]",
            outcome.family.front_end.value,
            escape(outcome.family.goal.measure),
            f"{outcome.quality:.4g}",
            f"{'≥' if outcome.family.goal.more_is_better else '≤'} {outcome.family.goal.bar:.4g}",
            f"{outcome.family.goal.guess:.3g}",
            format_seconds(outcome.seconds),
            "[green]reached[/]" if outcome.reached else "[red]missed[/]",
        )
        for outcome in outcomes
    ]
    print_rows(open_console(), _COLUMNS, rows)


@contextmanager
def _show_progress() -> Iterator[Callable[[Family], Tell]]:
    """A bar for each family at a terminal; nothing at all in a pipe."""
    console = open_console(stderr=True)
    if not console.is_terminal:
        yield lambda family: lambda done, calls, loss: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:

        def show(family: Family) -> Tell:
            task = progress.add_task(family.name, loss="compiling")

            def tell(done: int, calls: int, loss: float) -> None:
                progress.update(task, completed=done, total=calls, loss=f"loss {loss:.4g}")

            return tell

        yield show
