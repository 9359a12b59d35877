"""Pass "liveness": when each storage is live, and what that makes of every tile at every step.

In: a placed `Workload` and its `Schedule`. Out: variables with lifetimes, and per-tile and per-step totals.
Not-always-live memory is reused as soon as its last reader is done. Scratch lives during its own op.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openipu.machine import System
from openipu.ops.cost import StepKind
from openipu.plan.place import GRAIN_BYTES
from openipu.plan.schedule import Schedule
from openipu.plan.types import Spread, TileBytes, TileMapping, Variable, VariableKind
from openipu.plan.work import Storage, Task, Value, Workload

_EVENTS_AT_ONCE = 64  # rows of a table over all tiles: some hundred kilobytes


@dataclass(frozen=True, slots=True)
class VariableList:
    """All variables, and which of them hold what a task reads and writes."""

    variables: tuple[Variable, ...]
    index_by_root: Mapping[int, int]  # id of a storage that has bytes of its own -> index of its variable

    def find(self, values: Iterable[Value]) -> tuple[int, ...]:
        """The variables behind these values, each once; what lies off chip has none."""
        found = (self.index_by_root.get(id(value.storage.root)) for value in values)
        return tuple(dict.fromkeys(index for index in found if index is not None))


def list_variables(workload: Workload, schedule: Schedule) -> VariableList:
    """One variable a storage that has bytes of its own, and one a scratch area."""
    final = max(0, len(schedule.steps) - 1)
    spans: dict[int, tuple[int, int]] = {}
    for storage in workload.storages:
        root = storage.root
        if root.always_live:
            spans[id(root)] = (0, final)
            continue
        first, last = _find_span(storage, schedule, final)
        known = spans.get(id(root))
        spans[id(root)] = (first, last) if known is None else (min(first, known[0]), max(last, known[1]))
    variables: list[Variable] = []
    index_by_root: dict[int, int] = {}
    for storage in workload.storages:
        if storage.root is not storage or not storage.operand.bytes or storage.residence.off_chip:
            continue
        assert storage.mapping is not None, f"{storage.name} was not placed"
        first, last = spans[id(storage)]
        index_by_root[id(storage)] = len(variables)
        variables.append(_make_variable(len(variables), storage, storage.mapping, first, last))
    for storage in workload.storages:
        mapping = storage.root.mapping
        if storage.stash_copies and mapping is not None:
            variables.append(_make_stash(len(variables), storage, mapping, final))
    for task in workload.tasks:
        scratch = _measure_scratch(task)
        if scratch is not None:
            first, last = schedule.first_step[task.index], schedule.last_step[task.index]
            variables.append(
                Variable(
                    index=len(variables),
                    name=f"{task.name} scratch",
                    kind=VariableKind.SCRATCH,
                    shape=(scratch.total_bytes,),
                    dtype="uint8",
                    mapping=scratch,
                    always_live=False,
                    first_step=first,
                    last_step=last,
                    op=task.index,
                    ipu=task.place.ipu,
                )
            )
    return VariableList(tuple(variables), index_by_root)


def _find_span(storage: Storage, schedule: Schedule, final: int) -> tuple[int, int]:
    first = 0 if storage.writer is None else schedule.first_step[storage.writer]
    last = schedule.last_step[storage.writer] if storage.writer is not None else 0
    if storage.last_reader >= 0:
        last = max(last, schedule.last_step[storage.last_reader])
    return first, final if storage.streamed_out else last


def _make_variable(index: int, storage: Storage, mapping: TileMapping, first: int, last: int) -> Variable:
    return Variable(
        index=index,
        name=storage.name,
        kind=storage.kind,
        shape=storage.operand.shape,
        dtype=str(storage.operand.dtype).removeprefix("torch."),
        mapping=mapping,
        always_live=storage.always_live,
        first_step=first,
        last_step=last,
        op=storage.writer,
        ipu=storage.ipu,
    )


def _make_stash(index: int, storage: Storage, mapping: TileMapping, final: int) -> Variable:
    """Copies for the micro-batches that are further down the pipeline."""
    copies = storage.stash_copies
    spread = TileMapping(mapping.first_tile, mapping.tiles, mapping.total_bytes * copies, mapping.grain_bytes)
    return Variable(
        index=index,
        name=f"{storage.name} stash",
        kind=VariableKind.STASH,
        shape=(copies, *storage.operand.shape),
        dtype=str(storage.operand.dtype).removeprefix("torch."),
        mapping=spread,
        always_live=True,
        first_step=0,
        last_step=final,
        op=storage.writer,
        ipu=storage.ipu,
    )


def _measure_scratch(task: Task) -> TileMapping | None:
    """Temporary bytes of the op itself plus copies of the operands that had to move."""
    moved = sum(move.bytes_per_tile for move in task.moves)
    per_tile = task.priced.scratch_bytes_per_tile + moved
    if per_tile <= 0:
        return None
    widest = [step.tiles for step in task.priced.steps if step.kind is not StepKind.SYNC]
    tiles = max([1, *widest, *(move.tiles for move in task.moves)])
    rounded = -(-per_tile // GRAIN_BYTES) * GRAIN_BYTES
    return TileMapping(0, tiles, rounded * tiles, GRAIN_BYTES)


class TileLiveness:
    """Per-tile and per-step totals of one IPU, from the variables that lie on it."""

    def __init__(self, variables: Sequence[Variable], steps: int, system: System) -> None:
        tiles = system.target.tiles
        self.always_live: TileBytes = np.zeros(tiles, dtype=np.int64)
        self.peak: TileBytes = np.zeros(tiles, dtype=np.int64)
        self.peak_step: npt.NDArray[np.int64] = np.zeros(tiles, dtype=np.int64)
        self.live_by_step: npt.NDArray[np.int64] = np.zeros(steps, dtype=np.int64)
        self.fullest_by_step: npt.NDArray[np.int64] = np.zeros(steps, dtype=np.int64)
        self._known: dict[TileMapping | Spread, TileBytes] = {}
        starts: dict[int, list[TileBytes]] = {}
        ends: dict[int, list[TileBytes]] = {}
        for variable in variables:
            spread = self._spread(variable.mapping, tiles)
            if variable.always_live:
                self.always_live += spread
            else:
                starts.setdefault(variable.first_step, []).append(spread)
                ends.setdefault(variable.last_step + 1, []).append(spread)
        self._sweep(starts, ends, steps, tiles)

    def _sweep(
        self, starts: dict[int, list[TileBytes]], ends: dict[int, list[TileBytes]], steps: int, tiles: int
    ) -> None:
        """Steps at which nothing begins or ends are as the one before; the others are added up some at a time."""
        events = sorted(step for step in {*starts, *ends} if 0 <= step < steps)
        live: TileBytes = np.zeros(tiles, dtype=np.int64)
        for start in range(0, len(events), _EVENTS_AT_ONCE):
            part = events[start : start + _EVENTS_AT_ONCE]
            following = events[start + _EVENTS_AT_ONCE] if start + _EVENTS_AT_ONCE < len(events) else steps
            held = np.zeros((len(part), tiles), dtype=np.int64)
            for row, step in zip(held, part, strict=True):
                for spread in ends.get(step, ()):
                    live -= spread
                for spread in starts.get(step, ()):
                    live += spread
                row[:] = live
            self._take(held, part, following)

    def _take(self, held: TileBytes, events: Sequence[int], following: int) -> None:
        """Totals and peaks of some events, up to the step that the next ones begin with."""
        lengths = np.diff([*events, following])
        self.live_by_step[events[0] : following] = held.sum(axis=1).repeat(lengths)
        self.fullest_by_step[events[0] : following] = held.max(axis=1, initial=0).repeat(lengths)
        at = held.argmax(axis=0)  # the first of the highest
        highest = held[at, np.arange(held.shape[1])]
        higher = highest > self.peak
        self.peak_step[higher] = np.asarray(events)[at[higher]]
        self.peak[higher] = highest[higher]

    def _spread(self, mapping: TileMapping | Spread, tiles: int) -> TileBytes:
        """Bytes by tile. Variables of one shape lie alike, so most are known; what starts must end as well."""
        if mapping not in self._known:
            self._known[mapping] = mapping.bytes_by_tile(tiles)
        return self._known[mapping]
