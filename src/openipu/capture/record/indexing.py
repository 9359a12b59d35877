"""Indices that torch's C++ indexing would read on the host: lists, and whole numbers held in IPU tensors.

In: the tensor and the index of `x[index]`. Out: the same result through indices that need no value while tracing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Lift = Callable[[torch.Tensor], torch.Tensor]  # host tensor -> constant of the program


def read_item(source: torch.Tensor, index: Any, lift: Lift) -> Any:
    """`source[index]`."""
    entries = _replace_lists(index, lift)
    for position in _find_tensor_numbers(entries):
        # Take the row as a list of one row, which reads nothing, then drop the list with a plain 0.
        dimension = _source_dimension(entries, position, source.dim())
        chosen = (slice(None),) * dimension + (entries[position].reshape(1),)
        source = source[chosen]
        entries[position] = 0
    return source[_unwrap(entries, index)]


def write_item(target: torch.Tensor, index: Any, value: Any, lift: Lift) -> None:
    """`target[index] = value`."""
    entries = _replace_lists(index, lift)
    numbers = _find_tensor_numbers(entries)
    for position in numbers:
        entries[position] = entries[position].reshape(1)
    if len(numbers) == 1 and isinstance(value, torch.Tensor):
        # The written region now has a dimension of size one where the number stood: give the value one too.
        behind = _region_dimensions_behind(entries, numbers[0], target.dim())
        if value.dim() > behind:
            value = value.unsqueeze(value.dim() - behind)
    target[_unwrap(entries, index)] = value


def _replace_lists(index: Any, lift: Lift) -> list[Any]:
    entries = list(index) if isinstance(index, tuple) else [index]
    for position, entry in enumerate(entries):
        plain = isinstance(entry, list) and not any(isinstance(item, torch.Tensor | slice | None) for item in entry)
        if plain:
            entries[position] = lift(torch.tensor(entry, device="cpu"))
    return entries


def _find_tensor_numbers(entries: list[Any]) -> list[int]:
    return [
        position
        for position, entry in enumerate(entries)
        if isinstance(entry, torch.Tensor)
        and entry.is_meta
        and entry.dim() == 0
        and entry.dtype != torch.bool
        and not entry.dtype.is_floating_point
    ]


def _unwrap(entries: list[Any], index: Any) -> Any:
    return tuple(entries) if isinstance(index, tuple) else entries[0]


def _consumed(entry: Any) -> int:
    """Dimensions of the source that one entry uses up."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    if isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8):
        return entry.dim()
    return 1


def _source_dimension(entries: list[Any], position: int, rank: int) -> int:
    before = sum(_consumed(entry) for entry in entries[:position])
    if any(entry is Ellipsis for entry in entries[:position]):
        return rank - sum(_consumed(entry) for entry in entries[position:])
    return before


def _region_dimensions_behind(entries: list[Any], position: int, rank: int) -> int:
    """Dimensions of the written region behind the one at `position`."""
    behind = entries[position + 1 :]
    kept = sum(1 for entry in behind if entry is None or isinstance(entry, slice))
    unnamed = rank - sum(_consumed(entry) for entry in entries)
    ellipsis_before = any(entry is Ellipsis for entry in entries[:position])
    return kept + (0 if ellipsis_before else unnamed)
