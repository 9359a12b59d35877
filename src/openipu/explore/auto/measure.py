"""What each segment costs, read from plans in which every segment has an IPU of its own.

In: a program, its chain, a system, options, an available-memory proportion. Out: `SegmentCosts`: cycles by segment and
phase, memory by segment on a sample of tiles, and what crosses from one segment to another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from openipu.explore.auto.placing import lay_out
from openipu.explore.auto.programs import ProgramTable, list_programs
from openipu.explore.auto.segments import Chain
from openipu.explore.auto.types import Layout, Stage
from openipu.graph import Phase, Program, RunOptions, Strategy, TensorLocation, TensorRole
from openipu.machine import System
from openipu.plan import KnownProgram, Plan, TileMapping, Variable, VariableKind
from openipu.plan.lowering.transfers import COPY
from openipu.plan.parts import PartPlanner
from openipu.plan.types import Spread

SAMPLED_TILES = 64  # memory is compared on so many tiles: enough to see how uneven it lies
_AWAY = TensorLocation(on_chip=False)  # as the search keeps state that is not on chip
Rows = npt.NDArray[np.float64]  # a row per segment, a column per sampled tile


@dataclass(frozen=True, slots=True)
class Crossing:
    """One tensor that a segment needs from another one."""

    name: str
    source: int
    destination: int
    backward: bool  # fetched in the backward pass
    cycles: float
    tile_bytes: float
    kept: bool  # backward reads it again


@dataclass(frozen=True, eq=False)
class SegmentCosts:
    """Costs by segment, for one micro-batch size and one available-memory proportion."""

    forward_cycles: npt.NDArray[np.float64]
    backward_cycles: npt.NDArray[np.float64]
    update_cycles: npt.NDArray[np.float64]
    fixed: Rows  # parameters, buffers, constants, stream buffers
    state: Rows  # optimizer state
    whole_state: Rows  # the part of it that is too small to be shared between replicas
    accumulators: Rows
    kept: Rows  # made in forward, read in backward
    work: Rows  # what comes and goes beside it, at its highest before the update
    update_work: Rows  # what comes and goes in the update, with all state on chip
    largest_state: Rows  # state of the parameter that has most
    programs: ProgramTable
    crossings: tuple[tuple[Crossing, ...], ...]  # by destination
    state_bytes: npt.NDArray[np.float64]
    state_tensors: npt.NDArray[np.float64]  # that could be kept off chip
    shared_weights: npt.NDArray[np.float64]  # that are gathered where each replica updates its share
    gradient_bytes: npt.NDArray[np.float64]
    micro_batch: int

    @property
    def segments(self) -> int:
        return len(self.crossings)


class SegmentMeter:
    """Measures the segments of one program with one proportion after the other. Equal segments are measured once."""

    def __init__(
        self, program: Program, chain: Chain, system: System, options: RunOptions, known: KnownProgram | None = None
    ) -> None:
        self.count = count = len(chain.segments)
        alone = Layout(tuple(Stage(index, index, index) for index in range(count)), (1.0,) * count)
        elsewhere = tuple(entry for entry in options.locations if entry[0] is not TensorRole.OPTIMIZER)
        plain = replace(
            options,
            strategy=Strategy.SHARDED,
            recompute=None,
            replicas=1,
            device_iterations=1,
            gradient_accumulation=2 if options.training else 1,
            memory_proportions=(),
            locations=elsewhere,
            output_period=1,
            output_choices=(),
            replica_groups=(),
        )
        with lay_out(program, chain, alone):
            self._planner = PartPlanner(program, system, plain, known or KnownProgram())

    def measure(self, proportion: float) -> SegmentCosts:
        """Plan one segment of each kind on an IPU of its own, and read the costs off."""
        return _Reader(self._planner.plan(proportion), self._planner, self.count).read()


def join_best(found: Sequence[SegmentCosts]) -> SegmentCosts:
    """Costs that none of these is below: the least time and the least memory of each segment."""
    least = {
        field.name: np.minimum.reduce([getattr(costs, field.name) for costs in found])
        for field in fields(SegmentCosts)
        if isinstance(getattr(found[0], field.name), np.ndarray)
    }
    smallest = min(found, key=lambda costs: float(costs.programs.sum_code(range(costs.segments)).sum()))
    return replace(smallest, **least)


class _Reader:
    def __init__(self, plan: Plan, parts: PartPlanner, count: int) -> None:
        self.plan, self.parts, self.count = plan, parts, count
        self.kinds = [parts.kinds[index] if index < len(parts.kinds) else index for index in range(count)]
        tiles = plan.system.target.tiles
        self.sample = np.unique(np.linspace(0, tiles - 1, SAMPLED_TILES).astype(np.int64))
        self._spreads: dict[TileMapping | Spread, Rows] = {}
        steps = [step.index for step in plan.steps if step.phase is Phase.BACKWARD and not step.per_call]
        self.first_backward = min(steps, default=len(plan.steps))
        last = [step.index for step in plan.steps if step.phase is not Phase.UPDATE and step.op is not None]
        self.first_update = 1 + max(last, default=-1)

    def read(self) -> SegmentCosts:
        cycles = {phase: np.zeros(self.count) for phase in Phase}
        for op in self.plan.ops:
            if op.op != COPY and op.ipu < self.count:
                cycles[op.phase][op.ipu] += op.cycles
        rows = {name: self._make_rows() for name in ("fixed", "state", "whole_state", "accumulators", "kept")}
        state_bytes, gradient_bytes, state_tensors, shared_weights = (np.zeros(self.count) for _ in range(4))
        state_of: dict[tuple[int, str], Rows] = {}  # by IPU and parameter
        for variable in self.plan.variables:
            if variable.ipu >= self.count:
                continue
            name = self._choose_row(variable.kind, variable.always_live, variable.op, variable.last_step)
            if name is None:
                continue
            spread = self._spread(variable)
            rows[name][variable.ipu] += spread
            if name == "state":
                state_bytes[variable.ipu] += variable.bytes
                if math.prod(variable.shape) < _AWAY.minimum_sharded_elements:
                    rows["whole_state"][variable.ipu] += spread
                state_tensors[variable.ipu] += math.prod(variable.shape) >= _AWAY.minimum_off_chip_elements
                owner = variable.ipu, variable.name.rpartition(":")[2]
                state_of[owner] = state_of.get(owner, 0.0) + spread
            elif name == "accumulators":
                gradient_bytes[variable.ipu] += variable.bytes
                shared_weights[variable.ipu] += math.prod(variable.shape) >= _AWAY.minimum_sharded_elements
        largest_state = self._make_rows()
        for (ipu, _), held in state_of.items():
            largest_state[ipu] = np.maximum(largest_state[ipu], held)
        peak, update_peak = self._find_peaks()
        cycles = {phase: values[self.kinds] for phase, values in cycles.items()}
        rows = {name: values[self.kinds] for name, values in rows.items()}
        peak = peak[self.kinds]
        crossings = self._list_crossings()
        brought = np.array([[sum(entry.tile_bytes for entry in entries if entry.kept)] for entries in crossings])
        return SegmentCosts(
            forward_cycles=cycles[Phase.FORWARD],
            backward_cycles=cycles[Phase.BACKWARD],
            update_cycles=cycles[Phase.UPDATE],
            **rows,
            work=np.maximum(peak - rows["kept"] - brought, 0.0),
            update_work=update_peak[self.kinds],
            largest_state=largest_state[self.kinds],
            programs=list_programs(self.plan, self.parts.planned_tasks, self.kinds, self.sample),
            crossings=crossings,
            state_bytes=state_bytes[self.kinds],
            state_tensors=state_tensors[self.kinds],
            shared_weights=shared_weights[self.kinds],
            gradient_bytes=gradient_bytes[self.kinds],
            micro_batch=self.plan.micro_batch,
        )

    def _make_rows(self) -> Rows:
        return np.zeros((self.count, len(self.sample)))

    def _spread(self, variable: Variable) -> Rows:
        """Bytes on the sampled tiles. Variables of one shape lie alike, so most are known."""
        found = self._spreads.get(variable.mapping)
        if found is None:
            spread = variable.mapping.bytes_by_tile(self.plan.system.target.tiles)[self.sample]
            found = self._spreads[variable.mapping] = spread.astype(np.float64)
        return found

    def _find_peaks(self) -> tuple[Rows, Rows]:
        """What comes and goes, at its highest before the update and in it."""
        before, later = self._make_rows(), self._make_rows()
        steps = len(self.plan.steps)
        by_ipu: dict[int, list[Variable]] = {}
        for variable in self.plan.variables:
            if not variable.always_live and variable.ipu < self.count:
                by_ipu.setdefault(variable.ipu, []).append(variable)
        for ipu, variables in by_ipu.items():
            change = np.zeros((steps + 1, len(self.sample)))
            spreads = np.stack([self._spread(variable) for variable in variables])
            np.add.at(change, [variable.first_step for variable in variables], spreads)
            np.subtract.at(change, [variable.last_step + 1 for variable in variables], spreads)
            live = np.cumsum(change[:steps], axis=0)
            before[ipu] = live[: self.first_update].max(axis=0, initial=0.0)
            later[ipu] = live[self.first_update :].max(axis=0, initial=0.0)
        return before, later

    def _choose_row(self, kind: VariableKind, always_live: bool, op: int | None, last_step: int) -> str | None:
        if kind is VariableKind.STATE:
            return "state"
        if kind is VariableKind.ACCUMULATOR:
            return "accumulators"
        if always_live:
            return "fixed"
        if op is None or last_step < self.first_backward or kind is VariableKind.SCRATCH:
            return None
        maker = self.plan.ops[op]
        return "kept" if maker.phase is Phase.FORWARD and maker.op != COPY else None

    def _list_crossings(self) -> tuple[tuple[Crossing, ...], ...]:
        kept = {
            variable.op
            for variable in self.plan.variables
            if variable.op is not None and variable.last_step >= self.first_backward
        }
        keeps: list[list[bool]] = [[] for _ in range(self.count)]  # of the segments that were planned, copy by copy
        for op in self.plan.ops:
            if op.op == COPY and op.ipu < self.count:
                keeps[op.ipu].append(op.index in kept)
        found: list[list[Crossing]] = [[] for _ in range(self.count)]
        met = [0] * self.count
        tiles = self.plan.system.target.tiles
        for task in self.parts.tasks:
            ipu = task.place.ipu
            if task.site.op != COPY or ipu >= self.count:
                continue
            is_kept = keeps[self.kinds[ipu]][met[ipu]]
            met[ipu] += 1
            if task.phase is Phase.UPDATE:
                continue
            backward, cost = task.phase is Phase.BACKWARD, task.priced
            moved = sum(step.moved_bytes * step.repeats for step in cost.steps) / tiles
            source = task.reads[0].storage.ipu
            found[ipu].append(Crossing(task.name, source, ipu, backward, cost.cycles, moved, not backward and is_kept))
        return tuple(tuple(entries) for entries in found)
