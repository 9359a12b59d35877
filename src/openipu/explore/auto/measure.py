"""What each segment costs, read from one plan in which every segment has an IPU of its own.

In: a program, its chain, a system, options, an available-memory proportion. Out: `SegmentCosts`: cycles by segment and
phase, memory by segment on a sample of tiles, and what crosses from one segment to another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from openipu.explore.auto.placing import lay_out
from openipu.explore.auto.segments import Chain
from openipu.explore.auto.types import Layout, Stage
from openipu.graph import Phase, Program, RunOptions, Strategy, TensorRole
from openipu.machine import System
from openipu.plan import Plan, VariableKind, plan_program
from openipu.plan.lowering.transfers import COPY

SAMPLED_TILES = 64  # memory is compared on so many tiles: enough to see how uneven it lies
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
    accumulators: Rows
    kept: Rows  # made in forward, read in backward
    work: Rows  # what comes and goes beside it, at its highest
    code: Rows
    kind: tuple[int, ...]  # equal segments have equal numbers: they share their code
    crossings: tuple[tuple[Crossing, ...], ...]  # by destination
    state_bytes: npt.NDArray[np.float64]
    gradient_bytes: npt.NDArray[np.float64]
    micro_batch: int

    @property
    def segments(self) -> int:
        return len(self.kind)


def measure_segments(
    program: Program, chain: Chain, system: System, options: RunOptions, proportion: float
) -> SegmentCosts:
    """Plan the program with an IPU for every segment, and read the costs off."""
    count = len(chain.segments)
    alone = Layout(tuple(Stage(index, index, index) for index in range(count)), (proportion,) * count)
    elsewhere = tuple(entry for entry in options.locations if entry[0] is not TensorRole.OPTIMIZER)
    plain = replace(
        options,
        strategy=Strategy.SHARDED,
        recompute=None,
        replicas=1,
        device_iterations=1,
        gradient_accumulation=2 if options.training else 1,
        available_memory_proportion=proportion,
        memory_proportions=(),
        locations=elsewhere,
        output_period=1,
        output_choices=(),
        replica_groups=(),
    )
    with lay_out(program, chain, alone):
        plan = plan_program(program, system, plain)
    return _Reader(plan, count).read()


class _Reader:
    def __init__(self, plan: Plan, count: int) -> None:
        self.plan, self.count = plan, count
        tiles = plan.system.target.tiles
        self.sample = np.unique(np.linspace(0, tiles - 1, SAMPLED_TILES).astype(np.int64))
        steps = [step.index for step in plan.steps if step.phase is Phase.BACKWARD and not step.per_call]
        self.first_backward = min(steps, default=len(plan.steps))

    def read(self) -> SegmentCosts:
        cycles = {phase: np.zeros(self.count) for phase in Phase}
        for op in self.plan.ops:
            if op.op != COPY and op.ipu < self.count:
                cycles[op.phase][op.ipu] += op.cycles
        rows = {name: self._make_rows() for name in ("fixed", "state", "accumulators", "kept")}
        state_bytes, gradient_bytes = np.zeros(self.count), np.zeros(self.count)
        for variable in self.plan.variables:
            if variable.ipu >= self.count:
                continue
            name = self._choose_row(variable.kind, variable.always_live, variable.op, variable.last_step)
            if name is None:
                continue
            spread = variable.mapping.bytes_by_tile(self.plan.system.target.tiles)
            rows[name][variable.ipu] += spread[self.sample]
            if name == "state":
                state_bytes[variable.ipu] += variable.bytes
            elif name == "accumulators":
                gradient_bytes[variable.ipu] += variable.bytes
        code, peak = self._make_rows(), self._make_rows()
        for memory in self.plan.memory[: self.count]:
            for values in memory.categories.values():
                code[memory.ipu] += values[self.sample]
            peak[memory.ipu] = memory.peak_not_always_live[self.sample]
        crossings = self._list_crossings()
        brought = np.array([[sum(entry.tile_bytes for entry in entries if entry.kept)] for entries in crossings])
        return SegmentCosts(
            forward_cycles=cycles[Phase.FORWARD],
            backward_cycles=cycles[Phase.BACKWARD],
            update_cycles=cycles[Phase.UPDATE],
            **rows,
            work=np.maximum(peak - rows["kept"] - brought, 0.0),
            code=code,
            kind=self._compare(cycles, code),
            crossings=crossings,
            state_bytes=state_bytes,
            gradient_bytes=gradient_bytes,
            micro_batch=self.plan.micro_batch,
        )

    def _make_rows(self) -> Rows:
        return np.zeros((self.count, len(self.sample)))

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

    def _compare(self, cycles: dict[Phase, npt.NDArray[np.float64]], code: Rows) -> tuple[int, ...]:
        """Segments that cost the same and have as much code are copies of one layer."""
        known: dict[tuple[float, ...], int] = {}
        found = []
        for index in range(self.count):
            times = (round(cycles[Phase.FORWARD][index], 1), round(cycles[Phase.UPDATE][index], 1))
            found.append(known.setdefault((*times, float(code[index].sum())), len(known)))
        return tuple(found)

    def _list_crossings(self) -> tuple[tuple[Crossing, ...], ...]:
        made_on = {variable.name: variable.ipu for variable in self.plan.variables if variable.op is None}
        for op in self.plan.ops:
            if op.op != COPY:
                made_on.setdefault(op.name, op.ipu)
        kept = {
            variable.op
            for variable in self.plan.variables
            if variable.op is not None and variable.last_step >= self.first_backward
        }
        found: list[list[Crossing]] = [[] for _ in range(self.count)]
        tiles = self.plan.system.target.tiles
        for op in self.plan.ops:
            if op.op != COPY or op.ipu >= self.count or op.phase is Phase.UPDATE:
                continue
            source = made_on.get(op.name, op.ipu)
            backward = op.phase is Phase.BACKWARD
            keeps = not backward and op.index in kept
            found[op.ipu].append(Crossing(op.name, source, op.ipu, backward, op.cycles, op.moved_bytes / tiles, keeps))
        return tuple(tuple(entries) for entries in found)
