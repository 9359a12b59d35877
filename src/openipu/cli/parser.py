"""The parser of every command: help that keeps to the width of the terminal, and messages that name the near match.

In: descriptions and epilogs as they are written in the source, at any width. Out: help at the terminal's width. In an
epilog, lines that begin with two blanks are entries, a command and after two blanks or more what it does; other lines
are paragraphs.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from openipu.cli.terminal import write_message
from openipu.errors import suggest

_ENTRY = re.compile(r"  (?P<command>\S.*?)(?: {2,}(?P<meaning>\S.*))?$")
_LEAST_MEANING = 30  # columns for what a command does, beside it
_BELOW = 6  # blanks before a meaning that stands below its command


class HelpText(argparse.HelpFormatter):
    """Paragraphs are wrapped, entries are lined up; what has no room beside its command goes below it."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = [block.splitlines() for block in re.split(r"\n\s*\n", text.strip("\n"))]
        return "\n\n".join(self._fill_block(block, width) for block in blocks)

    def _fill_block(self, lines: Sequence[str], width: int) -> str:
        entries = [match for line in lines if (match := _ENTRY.match(line)) is not None]
        room = width - _LEAST_MEANING
        column = max((len(entry["command"]) + 4 for entry in entries if len(entry["command"]) + 4 <= room), default=0)
        filled: list[str] = []
        paragraph: list[str] = []
        for line in [*lines, None]:
            entry = None if line is None else _ENTRY.match(line)
            if line is not None and entry is None:
                paragraph.append(line)
                continue
            if paragraph:
                filled.extend(_wrap(" ".join(paragraph), width))
                paragraph.clear()
            if entry is not None:
                filled.extend(_lay_out(entry["command"], entry["meaning"], column, width))
        return "\n".join(filled)


def _lay_out(command: str, meaning: str | None, column: int, width: int) -> list[str]:
    shown = textwrap.wrap(command, width - 4, break_long_words=False, break_on_hyphens=False)
    lines = [f"  {'  ' if number else ''}{part} \\" for number, part in enumerate(shown)]
    lines[-1] = lines[-1].removesuffix(" \\")
    if meaning is None:
        return lines
    if len(lines) > 1 or len(lines[0]) + 2 > column:
        return [*lines, *_wrap(meaning, width, " " * _BELOW)]
    beside = _wrap(meaning, width - column)
    return [f"{lines[0]:<{column}}{beside[0]}", *(f"{'':<{column}}{part}" for part in beside[1:])]


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


class Parser(argparse.ArgumentParser):
    """argparse's own, with our help. A command complains of its own options, with its own usage."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{**settings, "formatter_class": HelpText, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        """Usage and message on standard error, and exit code 2."""
        self.print_usage(sys.stderr)
        write_message(f"{self.prog}: error: {message}")
        sys.exit(2)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it, but nothing is left over for a parent to complain of."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return known, unknown

    def _refuse(self, words: Sequence[str]) -> NoReturn:
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if option is None:
            self.error(f"too many words: {' '.join(words)}")
        self.error(f"there is no option {option}.{suggest(option, self._option_string_actions)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, _describe_choice(str(value), [str(one) for one in action.choices]))


def _describe_choice(value: str, known: Iterable[str]) -> str:
    names = list(known)
    return f"there is no {value!r}.{suggest(value, names)} Choose from {', '.join(names)}."
