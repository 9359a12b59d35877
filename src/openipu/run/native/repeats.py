"""Stretches of a sequence that repeat one after the other, such as the equal layers of a model.

In: a sequence of numbers, equal for equal things. Out: `Repeat`s that do not overlap, in order. Nobody has to name the
layers: forward, backward and update of a layer are written down in the same order as those of its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Repeat:
    """`count` equal stretches of `period` things; any of the first `slack + 1` places can be the beginning."""

    start: int
    period: int
    count: int
    slack: int

    @property
    def saved(self) -> int:
        """How many things need no second look."""
        return (self.count - 1) * self.period


def find_repeats(sequence: Sequence[int], least_saved: int) -> list[Repeat]:
    """The repeats that save most, each at least so much; then those before and after them."""
    numbers = np.asarray(sequence, dtype=np.int64)
    found: list[Repeat] = []
    ranges = [(0, len(numbers))]
    while ranges:
        start, end = ranges.pop()
        best = _find_best(numbers[start:end], least_saved)
        if best is not None:
            placed = Repeat(start + best.start, best.period, best.count, best.slack)
            found.append(placed)
            ranges += [(start, placed.start), (placed.start + placed.period * placed.count, end)]
    return sorted(found, key=lambda repeat: repeat.start)


def _find_best(numbers: np.ndarray[Any, np.dtype[np.int64]], least_saved: int) -> Repeat | None:
    best: Repeat | None = None
    for period in range(1, len(numbers) // 2 + 1):
        # Where things differ from those one period later; between two such places they are all equal.
        changes = np.flatnonzero(numbers[:-period] != numbers[period:])
        edges = np.concatenate(([-1], changes, [len(numbers) - period]))
        lengths = np.diff(edges) - 1
        longest = int(lengths.argmax())
        covered = int(lengths[longest]) + period
        candidate = Repeat(int(edges[longest]) + 1, period, covered // period, covered % period)
        if candidate.saved >= max(least_saved, 1) and (best is None or candidate.saved > best.saved):
            best = candidate
    return best
