"""The user's own line, for messages and reports.

In: the stack. Out: a number for (file, line, function), and the `SourceLine` behind a number. Frames of this package
and of the libraries beside it are skipped.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import CodeType

from openipu.graph import SourceLine

_FOLDERS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name) + os.sep
    for name in ("poplar", "popops", "poplin", "popnn", "poprand", "poputil", "popsparse")
)
_own: dict[CodeType, bool] = {}
_numbers: dict[tuple[CodeType, int], int] = {}
_lines: list[SourceLine] = []
_known: dict[SourceLine, int] = {}
_given: list[int] = []  # lines of a program in another language, innermost last


def _is_own(code: CodeType) -> bool:
    known = _own.get(code)
    if known is None:
        known = _own[code] = os.path.abspath(code.co_filename).startswith(_FOLDERS)
    return known


def note_line() -> int:
    """The number of the line that called into this package."""
    if _given:
        return _given[-1]
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_own(frame.f_code):
        frame = frame.f_back
    key = (frame.f_code, frame.f_lineno)
    number = _numbers.get(key)
    if number is None:
        number = _numbers[key] = len(_lines)
        _lines.append(SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
    return number


def number_line(line: SourceLine) -> int:
    """The number of a line that is known already."""
    number = _known.get(line)
    if number is None:
        number = _known[line] = len(_lines)
        _lines.append(line)
    return number


@contextlib.contextmanager
def given_line(line: SourceLine) -> Iterator[None]:
    """While a call of this line is worked on, it is the user's own line."""
    _given.append(number_line(line))
    try:
        yield
    finally:
        _given.pop()


def find_line(number: int) -> SourceLine:
    return _lines[number]


def list_lines() -> tuple[SourceLine, ...]:
    """All lines so far, by number."""
    return tuple(_lines)
