"""Tables with frames, in the look that operators know from gc-monitor.

In: columns with a priority, and rows. Out: text that fits the terminal: columns of low priority are left out where it
is narrow, and the widest column is shortened last. Colour only where a terminal shows it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_PIPE_COLUMNS = 120
_STYLES = {"bold": "\x1b[1m", "green": "\x1b[32m", "cyan": "\x1b[36m"}
_END = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, whether it may go where there is no room (higher goes first), and whether it may be cut."""

    heading: str
    priority: int = 0  # 0: stays
    flexible: bool = False
    style: str = ""
    group: str = ""  # the title above it
    least: int = 0  # its width between the frames, unless its content is wider; 0: as its content, and two blanks


def choose_width() -> int:
    """The terminal's columns; a pipe gets a fixed width, so that output does not depend on the caller."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS


def wants_colour() -> bool:
    """A terminal, and no NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str) -> str:
    return f"{_STYLES[style]}{text}{_END}" if style and wants_colour() else text


def draw_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, least: int = 0) -> list[str]:
    """Lines of a framed table, `least` wide or wider. Titles of groups stand in a row above the headings."""
    kept = _choose_columns(columns, rows, width)
    shown = [columns[index] for index in kept]
    cells = [[row[index] for index in kept] for row in rows]
    widths = [_measure(column, [row[place] for row in cells]) for place, column in enumerate(shown)]
    spare = width - (sum(widths) + len(widths) + 1)
    for place, column in enumerate(shown):
        if column.flexible and spare < 0:
            cut = min(-spare, widths[place] - max(8, len(column.heading)) - 2)
            if cut > 0:
                widths[place] -= cut
                spare += cut
    for title, size, last in _measure_groups(shown, widths):
        missing = min(len(title) + 2 - size, max(spare, 0))
        if missing > 0:  # a title gets its room where there is some, and is cut where there is none
            widths[last] += missing
            spare -= missing
    for turn in range(least - (sum(widths) + len(widths) + 1)):  # what is to be wider is wider everywhere
        widths[turn % len(widths)] += 1
    groups = _measure_groups(shown, widths)
    edge = "+" + "+".join("-" * size for size in widths) + "+"
    lines = []
    if any(title for title, *_ in groups):
        lines.append("+" + "+".join("-" * size for _, size, _ in groups) + "+")
        texts = [_centre(_cut(title, size - 2), size, "bold") for title, size, _ in groups]
        lines.append("|" + "|".join(texts) + "|")
    lines.append(edge)
    lines.append(
        "|" + "|".join(_centre(column.heading, size, "bold") for column, size in zip(shown, widths, strict=True)) + "|"
    )
    lines.append(edge)
    lines += [
        "|"
        + "|".join(
            _centre(_cut(text, size if column.least else size - 2), size, column.style)
            for text, size, column in zip(row, widths, shown, strict=True)
        )
        + "|"
        for row in cells
    ]
    lines.append(edge)
    return lines


def draw_head(name: str, title: str, width: int) -> list[str]:
    """The two cells above a table of this width: who speaks, and of what."""
    first = len(name) + 5
    rest = width - first - 3
    cells = _centre(name, first, "bold"), _centre(_cut(title, rest - 2), rest, "bold")
    return ["+" + "-" * first + "+" + "-" * rest + "+", "|" + "|".join(cells) + "|"]


def draw_box(text: str, width: int, least: int = 0) -> list[str]:
    """One line of text in a frame, `least` wide or wider."""
    inside = max(min(width - 2, max(78, least - 2)), 0)
    return ["+" + "-" * inside + "+", "|" + _centre(_cut(text, inside - 2), inside, "") + "|", "+" + "-" * inside + "+"]


def _choose_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    kept = list(range(len(columns)))

    def measure() -> int:
        total = 1
        for index in kept:
            column = columns[index]
            content = max((len(row[index]) for row in rows), default=0)
            needed = max(len(column.heading), min(content, 12) if column.flexible else content)
            total += max(needed, column.least) + 1 if column.least else needed + 3
        return total

    while measure() > width:
        loose = [index for index in kept if columns[index].priority > 0]
        if not loose:
            break
        kept.remove(max(loose, key=lambda index: columns[index].priority))
    return kept


def _measure(column: Column, texts: Sequence[str]) -> int:
    needed = max(len(column.heading), *map(len, texts)) if texts else len(column.heading)
    return max(needed, column.least) if column.least else needed + 2


def _measure_groups(columns: Sequence[Column], widths: Sequence[int]) -> list[tuple[str, int, int]]:
    """Neighbouring columns with one title: the title, its width, its last column."""
    groups: list[tuple[str, int, int]] = []
    for place, (column, size) in enumerate(zip(columns, widths, strict=True)):
        if groups and groups[-1][0] == column.group:
            title, total, _ = groups[-1]
            groups[-1] = (title, total + size + 1, place)
        else:
            groups.append((column.group, size, place))
    return groups


def _centre(text: str, size: int, style: str) -> str:
    left = (size - len(text)) // 2
    return " " * left + paint(text, style) + " " * (size - len(text) - left)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: max(size - 1, 0)] + "…"
