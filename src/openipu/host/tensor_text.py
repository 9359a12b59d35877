"""Values of a tensor as text, one row per line, for printing while a program runs.

In: a tensor and a `TextStyle`. Out: its text. All numbers of a tensor have the same width; a tensor with too many
elements shows the first and last of each dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import torch

_ELLIPSIS = "..."


class FloatFormat(StrEnum):
    """How floating-point numbers are written."""

    AUTO = "auto"
    FIXED = "fixed"
    SCIENTIFIC = "scientific"
    NONE = "none"  # each number as it is shortest


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStyle:
    """`digits` are those before and after the point, without the exponent; 0 writes each number as it is shortest."""

    summarise_threshold: int = 1000  # more elements are summarised; 0: never
    edge_items: int = 3
    max_line_width: int = 80  # 0: lines are never broken
    digits: int = 4
    float_format: FloatFormat = FloatFormat.AUTO
    separator: str = ", "
    open_bracket: str = "("
    close_bracket: str = ")"


def format_tensor(tensor: torch.Tensor, style: TextStyle, title: str = "") -> str:
    """The text, behind its title."""
    prefix = f"{title}: " if title else ""
    shown = tensor.detach().cpu()
    summarised = 0 < style.summarise_threshold < shown.numel()
    numbers = _NumberWriter(_take_edges(shown, style.edge_items) if summarised else shown, style)
    return prefix + _write(shown, style, numbers, summarised, depth=0, start=len(prefix))


def _write(
    tensor: torch.Tensor, style: TextStyle, numbers: _NumberWriter, summarised: bool, depth: int, start: int
) -> str:
    if tensor.dim() == 0:
        return numbers.write(tensor)
    items = _choose_items(tensor.shape[0], style.edge_items, summarised)
    if tensor.dim() == 1:
        texts = [_ELLIPSIS if item is None else numbers.write(tensor[item]) for item in items]
        return _write_row(texts, style, depth, start)
    indent = " " * (depth + 1)
    lines = [
        indent
        + (
            _ELLIPSIS
            if item is None
            else _write(tensor[item], style, numbers, summarised, depth + 1, start=len(indent))
        )
        for item in items
    ]
    return "\n".join([style.open_bracket, *lines, " " * depth + style.close_bracket])


def _write_row(texts: list[str], style: TextStyle, depth: int, start: int) -> str:
    """One row. A line that would grow too long is broken behind a separator."""
    row = style.open_bracket
    length = start + len(row)
    indent = " " * (depth + 2)
    for index, text in enumerate(texts):
        last = index == len(texts) - 1
        piece = text + (style.close_bracket if last else style.separator)
        if index and 0 < style.max_line_width < length + len(piece.rstrip()):
            row = f"{row.rstrip()}\n{indent}"
            length = len(indent)
        row += piece
        length += len(piece)
    return row if texts else row + style.close_bracket


def _choose_items(size: int, edge_items: int, summarised: bool) -> list[int | None]:
    """Positions to show; None stands for those left out."""
    if not summarised or size <= 2 * edge_items:
        return list(range(size))
    return [*range(edge_items), None, *range(size - edge_items, size)]


def _take_edges(tensor: torch.Tensor, edge_items: int) -> torch.Tensor:
    for dimension, size in enumerate(tensor.shape):
        chosen = [item for item in _choose_items(size, edge_items, summarised=True) if item is not None]
        tensor = tensor.index_select(dimension, torch.tensor(chosen, dtype=torch.int64))
    return tensor


class _NumberWriter:
    """Writes the numbers of one tensor, all with the same width."""

    def __init__(self, values: torch.Tensor, style: TextStyle) -> None:
        self._specification = ""
        self._width = 0
        if values.is_floating_point() and style.digits > 0 and style.float_format is not FloatFormat.NONE:
            self._specification = _choose_specification(values.to(torch.float64), style)
        if style.digits > 0 and values.numel():
            self._width = max(len(self._write_plain(value)) for value in values.reshape(-1))

    def write(self, value: torch.Tensor) -> str:
        return self._write_plain(value).rjust(self._width)

    def _write_plain(self, value: torch.Tensor) -> str:
        number = value.item()
        if isinstance(number, bool):
            return str(int(number))
        if isinstance(number, float) and math.isfinite(number):
            return format(number, self._specification or ".9g")
        return str(number)


def _choose_specification(values: torch.Tensor, style: TextStyle) -> str:
    """Fixed point where all digits that matter fit in; else with an exponent."""
    sizes = values[torch.isfinite(values) & (values != 0)].abs()
    largest = float(sizes.max()) if sizes.numel() else 1.0
    smallest = float(sizes.min()) if sizes.numel() else 1.0
    before_point = max(1, math.floor(math.log10(largest)) + 1)
    chosen = style.float_format
    if chosen is FloatFormat.AUTO:
        fits = before_point <= style.digits and smallest >= 10.0 ** (1 - style.digits)
        chosen = FloatFormat.FIXED if fits else FloatFormat.SCIENTIFIC
    if chosen is FloatFormat.SCIENTIFIC:
        return f".{style.digits - 1}e"
    return f".{max(0, style.digits - before_point)}f"
