"""What every command prints with: two consoles, one look of tables, plain JSON.

Results go to standard output, everything about the work itself to standard error, so that pipes stay clean.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_PIPE_COLUMNS = 120  # width of a table that goes to a file or a pipe


def open_console(*, stderr: bool = False) -> Console:
    """A console on the current stream. A pipe gets a fixed width, so that tables do not depend on the caller."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False)


def print_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output, without any styling."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def make_table(title: str = "") -> Table:
    """The one look of all tables."""
    return Table(title=title or None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))


def format_quantity(count: float, unit: str) -> str:
    """`1.85e9, "Hz"` -> "1.85 GHz"."""
    for prefix in ("", "k", "M", "G", "T"):
        if abs(count) < 1000:
            return f"{count:.4g} {prefix}{unit}"
        count /= 1000
    return f"{count:.4g} P{unit}"
