"""What every command prints with: two consoles, one look of tables, plain JSON.

Results go to standard output, everything about the work itself to standard error, so that pipes stay clean. A reader
that leaves, such as `head`, ends the command without an error.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table

_PIPE_COLUMNS = 120  # width of a table that goes to a file or a pipe


def open_console(*, stderr: bool = False) -> Console:
    """A console on the current stream. A pipe gets a fixed width, so that tables do not depend on the caller."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_COLUMNS
    return _Console(file=stream, width=width, highlight=False)


class _Console(Console):
    """rich would end the process with exit code 1 when the reader has left."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def drop_closed_streams() -> None:
    """After a `BrokenPipeError`: what is still to be written goes nowhere, and Python does not complain at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def write_message(text: str) -> None:
    """A message on standard error: at a terminal no word is broken at its edge, elsewhere lines stay as they are."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(_wrap(line, width) for line in text.splitlines())
    sys.stderr.write(f"{text}\n")


def _wrap(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, width, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False)


def shorten_place(place: str) -> str:
    """A place in a file, from the working directory or the folder of packages on if it lies below one of them."""
    package = place.rpartition(f"{os.sep}site-packages{os.sep}")[2]
    return package if package != place else place.removeprefix(f"{os.getcwd()}{os.sep}")


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
