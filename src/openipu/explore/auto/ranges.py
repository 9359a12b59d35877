"""Ranges of segments added up: all that an estimate needs of them and that depends on no scheme.

In: `SegmentCosts` of each proportion. Out: `Ranges`, arrays with a row for each proportion. A search asks for the same
ranges in every stage and scheme, so each is added up once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openipu.explore.auto.measure import Crossing, Rows, SegmentCosts

Span = tuple[int, int]  # first and last segment


@dataclass(frozen=True, eq=False, slots=True)
class Range:
    """Neighbouring segments on one IPU. Bytes have a row for each proportion and a column for each sampled tile."""

    held: Rows  # fixed and accumulators
    state: Rows
    whole_state: Rows  # of tensors that are too small to be shared
    kept: Rows
    work: Rows  # of the segment that needs most, with gradients that wait for an earlier one
    layer: Rows  # kept and work of the segment that needs most, with the same
    moved: Rows  # what comes from other IPUs and is read again; one column
    update: Rows  # what the update of the segment that needs most takes, with state on chip
    largest_state: Rows  # of one parameter
    transfers: Rows  # state tensors that could be loaded and stored, weights that could be gathered; two columns
    inner: Rows  # what passes between the segments and is read again; one column
    forward: list[float]  # cycles, by proportion
    backward: list[float]
    forward_links: list[float]
    backward_links: list[float]


@dataclass(frozen=True, eq=False, slots=True)
class Ranges:
    """All ranges of one IPU, and the code that they share."""

    parts: tuple[Range, ...]
    code: Rows


class RangeReader:
    """Reads ranges, each once."""

    def __init__(self, costs: Sequence[SegmentCosts]) -> None:
        self.costs = tuple(costs)
        stack = self._stack
        self._fixed, self._state = stack(lambda entry: entry.fixed), stack(lambda entry: entry.state)
        self._whole_state = stack(lambda entry: entry.whole_state)
        self._accumulators, self._kept = stack(lambda entry: entry.accumulators), stack(lambda entry: entry.kept)
        self._forward = stack(lambda entry: entry.forward_cycles)
        self._backward = stack(lambda entry: entry.backward_cycles)
        self._work = np.stack([entry.work for entry in self.costs])
        self._layer = np.stack([entry.kept + entry.work for entry in self.costs])
        self._update = np.stack([entry.update_work for entry in self.costs])
        self._largest_state = np.stack([entry.largest_state for entry in self.costs])
        self._transfers = stack(lambda entry: np.stack([entry.state_tensors, entry.shared_weights], axis=1))
        self._kinds = self.costs[0].programs.find_equal()
        self._codes: dict[frozenset[int], Rows] = {}
        self._known: dict[tuple[Span, ...], Ranges] = {}

    def read(self, spans: tuple[Span, ...]) -> Ranges:
        """What one IPU with these ranges holds and does."""
        found = self._known.get(spans)
        if found is None:
            found = self._known[spans] = self._add_up(spans)
        return found

    def _add_up(self, spans: tuple[Span, ...]) -> Ranges:
        members = [index for first, last in sorted(spans) for index in range(first, last + 1)]
        held_here = set(members)
        seen: list[set[str]] = [set() for _ in self.costs]
        parts = []
        for first, last in spans:
            entering = [
                _list_entering(costs, range(first, last + 1), held_here, names)
                for costs, names in zip(self.costs, seen, strict=True)
            ]
            end = last + 1
            waiting = np.array([_list_waiting(costs, first, last, members) for costs in self.costs])[:, :, None]
            fixed, accumulators = self._fixed, self._accumulators
            parts.append(
                Range(
                    held=fixed[:, end] - fixed[:, first] + accumulators[:, end] - accumulators[:, first],
                    state=self._state[:, end] - self._state[:, first],
                    whole_state=self._whole_state[:, end] - self._whole_state[:, first],
                    kept=self._kept[:, end] - self._kept[:, first],
                    work=(self._work[:, first:end] + waiting).max(axis=1),
                    layer=(self._layer[:, first:end] + waiting).max(axis=1),
                    update=self._update[:, first:end].max(axis=1),
                    largest_state=self._largest_state[:, first:end].max(axis=1),
                    transfers=self._transfers[:, end] - self._transfers[:, first],
                    moved=_make_column(sum(entry.tile_bytes for entry in found if entry.kept) for found in entering),
                    inner=_make_column(_sum_inner(costs, first, last) for costs in self.costs),
                    forward=(self._forward[:, end] - self._forward[:, first]).tolist(),
                    backward=(self._backward[:, end] - self._backward[:, first]).tolist(),
                    forward_links=[sum(entry.cycles for entry in found if not entry.backward) for found in entering],
                    backward_links=[sum(entry.cycles for entry in found if entry.backward) for found in entering],
                )
            )
        return Ranges(tuple(parts), self._share_code(members))

    def _share_code(self, members: Sequence[int]) -> Rows:
        """What equal ops need is there once. Segments that differ only by name are one here."""
        key = frozenset(self._kinds[index] for index in members)
        if key not in self._codes:
            self._codes[key] = np.stack([costs.programs.sum_code(key) for costs in self.costs])
        return self._codes[key]

    def _stack(self, choose: Callable[[SegmentCosts], npt.NDArray[np.float64]]) -> Rows:
        """Sums from the first segment on, so that any range is one subtraction."""
        values = np.stack([choose(entry) for entry in self.costs])
        result = np.zeros((values.shape[0], values.shape[1] + 1, *values.shape[2:]))
        np.cumsum(values, axis=1, out=result[:, 1:])
        return result


def _make_column(values: Iterable[float]) -> Rows:
    return np.array([*values], dtype=np.float64)[:, None]


def _list_entering(costs: SegmentCosts, part: range, members: set[int], seen: set[str]) -> list[Crossing]:
    """What a part needs from other IPUs, each tensor once an IPU."""
    found: list[Crossing] = []
    for index in part:
        for entry in costs.crossings[index]:
            if entry.source not in members and entry.name not in seen:
                seen.add(entry.name)
                found.append(entry)
    return found


def _sum_inner(costs: SegmentCosts, first: int, last: int) -> float:
    """Bytes on a tile of what passes between the segments of a part, and is read again in backward."""
    names: dict[str, float] = {}
    for index in range(first, last + 1):
        for entry in costs.crossings[index]:
            if entry.kept and first <= entry.source:
                names[entry.name] = entry.tile_bytes
    return sum(names.values())


def _list_waiting(costs: SegmentCosts, first: int, last: int, members: Sequence[int]) -> list[float]:
    """By segment of a part: bytes on a tile of gradients that later segments of this IPU have made for earlier ones.

    So it is with a weight that both the first and the last segment read: the one gradient waits while backward passes
    through what is between them. The segment that takes it has it among its own work.
    """
    later = {index for index in members if index > last}
    if not later:
        return [0.0] * (last + 1 - first)
    sizes: dict[str, tuple[int, float]] = {}  # where it ends, and its bytes
    for index in range(last, -1, -1):
        for entry in costs.crossings[index]:
            if entry.backward and entry.source in later:
                sizes[entry.name] = index, entry.tile_bytes
    return [sum(size for end, size in sizes.values() if index > end) for index in range(first, last + 1)]
