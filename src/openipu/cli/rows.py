"""A table that fits its terminal: columns that can be spared are left out before anything is broken.

In: columns and rows of marked-up cells. Out: a table on a console.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from openipu.cli.terminal import make_table

_GAP = 2  # blanks between columns
_NARROWEST = 24  # of a column of words, before a column that can be spared is left out


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Words wrap, figures never do; those with the highest `spare` are left out first, 0 never."""

    heading: str
    figures: bool = True  # right-justified, in one line
    words: bool = False
    spare: int = 0


def print_rows(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print what there is room for."""
    widths = [
        max(_measure(column.heading), *(_measure(row[index]) for row in rows), 0)
        for index, column in enumerate(columns)
    ]
    kept = list(range(len(columns)))
    while _add_up(columns, widths, kept) > console.width:
        spare = max(kept, key=lambda index: columns[index].spare)
        if not columns[spare].spare:
            break
        kept.remove(spare)
    table = make_table(title)
    for index in kept:
        column = columns[index]
        table.add_column(
            column.heading,
            justify="right" if column.figures and not column.words else "left",
            no_wrap=not column.words,
            overflow="fold",  # a single word that is too long
            min_width=None if column.words else widths[index],
        )
    for row in rows:
        table.add_row(*(row[index] for index in kept))
    console.print(table)


def _measure(cell: str) -> int:
    return max((line.cell_len for line in Text.from_markup(cell).split("\n")), default=0)


def _add_up(columns: Sequence[Column], widths: Sequence[int], kept: Sequence[int]) -> int:
    needed = [min(widths[index], _NARROWEST) if columns[index].words else widths[index] for index in kept]
    return sum(needed) + _GAP * len(needed)
