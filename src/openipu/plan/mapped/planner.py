"""Plans a `MappedProgram`: the same `Plan` as of a captured model, with cycles by tile and a program tree.

In: a program, how often each program runs or how often each leaf ran. Out: a `Plan`. One call is all those runs.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping

import numpy as np

from openipu.graph import Phase, RunOptions
from openipu.graph.mapped import nodes
from openipu.graph.mapped.nodes import ProgramNode
from openipu.graph.mapped.program import MappedProgram, Value
from openipu.machine import Provenance
from openipu.ops.cost import CostStep, StepKind
from openipu.ops.vertex_code import (
    estimate_control_code_bytes,
    estimate_exchange_code_bytes,
    estimate_vertex_code_bytes,
)
from openipu.plan.liveness import TileLiveness
from openipu.plan.mapped.library import plan_library_op
from openipu.plan.mapped.lifetimes import Life, find_lives, split_by_ipu, spread_variable
from openipu.plan.mapped.steps import LeafPlan, LeafStep, StepBuilder
from openipu.plan.mapped.touch import touch_views
from openipu.plan.mapped.walk import Walk, count_executions, walk_programs
from openipu.plan.types import (
    IpuMemory,
    MemoryCategory,
    Plan,
    PlannedOp,
    PlannedStep,
    ProgramEntry,
    Spread,
    StepCode,
    StepTiles,
    TileBytes,
    TileMapping,
    Timing,
    Variable,
    VariableKind,
)
from openipu.plan.verdict import judge_fit


def plan_mapped(
    program: MappedProgram,
    runs: Mapping[int, int] | None = None,
    executions: Mapping[int, int] | None = None,
) -> Plan:
    """Plan all programs, or those that ran. `executions` are counts of a real run, by the identity of a leaf."""
    started = time.perf_counter()
    chosen = dict.fromkeys(range(len(program.programs)), 1) if not runs else dict(sorted(runs.items()))
    walk = walk_programs(program, list(chosen))
    counts = count_executions(program, chosen)
    if executions is not None:
        counts = {key: executions.get(key, 0) for key in counts}
    return _Planner(program, walk, counts, started).plan()


def price_leaves(program: MappedProgram) -> dict[int, float]:
    """Cycles of one execution of each leaf, by its identity."""
    walk = walk_programs(program, range(len(program.programs)))
    planner = _Planner(program, walk, dict.fromkeys(map(id, walk.leaves), 1), time.perf_counter())
    found = {}
    for leaf in walk.leaves:
        before = planner.cycles
        planner._lay_out(leaf)
        found[id(leaf)] = planner.cycles - before
    return found


class _Planner:
    def __init__(self, program: MappedProgram, walk: Walk, counts: Mapping[int, int], started: float) -> None:
        self.program, self.walk, self.counts, self.started = program, walk, counts, started
        self.builder = StepBuilder(program)
        self.ipus = max(1, program.tiles // program.tiles_per_ipu)
        self.steps: list[PlannedStep] = []
        self.ops: list[PlannedOp] = []
        self.spans: list[tuple[int, int]] = []  # steps of each leaf: first, last
        self.leaf_ops: list[tuple[int, int]] = []
        self.buffers: list[tuple[str, int, int, list[tuple[int, Spread]]]] = []
        self.temporaries: list[tuple[str, int, int, int, int]] = []  # name, op, first step, last step, bytes
        self.known: dict[object, LeafPlan] = {}
        self.categories = [
            {category: np.zeros(program.tiles_per_ipu, dtype=np.int64) for category in MemoryCategory}
            for _ in range(self.ipus)
        ]
        self.vertex_code: dict[str, TileBytes] = {}
        self.coded: set[object] = set()
        self.numbers: dict[object, int] = {}
        self.cycles = self.host_cycles = self.guessed = 0.0

    def plan(self) -> Plan:
        program = self.program
        plans = [self._lay_out(leaf) for leaf in self.walk.leaves]
        lives = find_lives(program, self.walk, [plan.touched for plan in plans])
        variables, numbers = self._list_variables(lives)
        self._name_variables(plans, numbers)
        memory = tuple(self._measure(ipu, variables) for ipu in range(self.ipus))
        return Plan(
            name=program.name,
            system=program.system,
            options=RunOptions(replicas=program.replicas),
            micro_batch=1,
            ops=tuple(self.ops),
            steps=tuple(self.steps),
            variables=variables,
            memory=memory,
            fit=judge_fit(memory, variables, self.ops, program.system),
            timing=Timing(
                micro_cycles=self.cycles,
                update_cycles=0.0,
                host_cycles=self.host_cycles,
                call_cycles=self.cycles,
                clock_hz=program.system.target.clock_hz,
                samples_per_call=program.replicas,
                guessed_cycles=self.guessed,
            ),
            guessed_ops=dict(Counter(op.op for op in self.ops if op.provenance is Provenance.GUESSED)),
            planning_seconds=time.perf_counter() - self.started,
            tree=self._make_tree(),
        )

    # -- steps -----------------------------------------------------------------------------------------------------

    def _lay_out(self, leaf: ProgramNode) -> LeafPlan:
        key, plan = self._plan_leaf(leaf)
        times = self.counts.get(id(leaf), 0)
        first, first_op = len(self.steps), len(self.ops)
        for place, op in enumerate(plan.ops):
            start, cycles = len(self.steps), 0.0
            for number, step in enumerate(op.steps):
                cycles += self._add_step(step, times, (key, place, number))
            if len(self.steps) == start:  # free, yet it needs a place in time for liveness
                self._add_step(LeafStep(StepKind.COMPUTE, op.name, np.zeros(self.program.tiles)), times, None)
            if op.provenance is Provenance.GUESSED:
                self.guessed += cycles
            self.ops.append(
                PlannedOp(
                    index=len(self.ops),
                    name=op.name,
                    op=op.op,
                    family=op.family,
                    phase=Phase.FORWARD,
                    module=leaf.name.replace("/", "."),
                    line=leaf.line,
                    cycles=cycles,
                    flops=op.flops * times,
                    moved_bytes=sum(step.moved_bytes for step in op.steps) * times,
                    scratch_bytes_per_tile=op.scratch_bytes_per_tile,
                    first_step=start,
                    step_count=len(self.steps) - start,
                    provenance=op.provenance,
                    basis=op.basis,
                    plan=op.plan,
                )
            )
            self._note_buffers(op.name, op.steps, start)
            if op.scratch_bytes_per_tile:
                size = op.scratch_bytes_per_tile * self.program.tiles_per_ipu
                self.temporaries.append((f"{op.name} scratch", len(self.ops) - 1, start, len(self.steps) - 1, size))
        if not plan.ops:
            self._add_step(
                LeafStep(StepKind.COMPUTE, leaf.name or "nothing", np.zeros(self.program.tiles)), times, None
            )
        if isinstance(leaf, nodes.LibraryNode):
            self._note_temporaries(leaf, first_op)
        self.spans.append((first, len(self.steps) - 1))
        self.leaf_ops.append((first_op, len(self.ops)))
        return plan

    def _plan_leaf(self, leaf: ProgramNode) -> tuple[object, LeafPlan]:
        if isinstance(leaf, nodes.ExecuteNode) and leaf.exit is None:
            key: object = ("compute set", leaf.compute_set)
        elif isinstance(leaf, nodes.LibraryNode):
            key = ("library", leaf.op)
        else:
            key = id(leaf)
        if key not in self.known:
            if isinstance(leaf, nodes.LibraryNode):
                op = self.program.library_ops[leaf.op]
                touched = touch_views(self.program, op.inputs, op.outputs)
                self.known[key] = LeafPlan(plan_library_op(self.builder, op), touched)
            else:
                self.known[key] = self.builder.plan(leaf)
        return key, self.known[key]

    def _add_step(self, step: LeafStep, times: int, key: object | None) -> float:
        """One `PlannedStep` for each IPU that takes part; returns the cycles of the slowest."""
        width, slowest, added = self.program.tiles_per_ipu, 0.0, False
        for ipu in range(self.ipus):
            part = slice(ipu * width, (ipu + 1) * width)
            by_tile = step.by_tile[part]
            if not by_tile.any() and (added or ipu < self.ipus - 1):
                continue
            added = True
            cycles = float(by_tile.max(initial=0.0))
            slowest = max(slowest, cycles)
            code = None if key is None else self._describe_code(step, ipu, part, key)
            busy = None if step.busy_by_tile is None else step.busy_by_tile[part]
            vertices = None if step.vertices_by_tile is None else step.vertices_by_tile[part]
            self.steps.append(
                PlannedStep(
                    index=len(self.steps),
                    kind=step.kind,
                    name=step.name,
                    cycles=cycles * times,
                    tiles=int(np.count_nonzero(by_tile)),
                    moved_bytes=step.moved_bytes * times,
                    flops=step.flops * times,
                    op=len(self.ops) if key is not None else None,
                    phase=Phase.FORWARD,
                    repeats=max(1, times),
                    ipu=ipu,
                    code=code,
                    by_tile=StepTiles(np.ceil(by_tile).astype(np.int64), busy, vertices, times),
                )
            )
        total = slowest * times
        self.cycles += total
        if step.kind is StepKind.HOST:
            self.host_cycles += total
        return total

    def _describe_code(self, step: LeafStep, ipu: int, part: slice, key: object) -> StepCode | None:
        """What the step keeps on its tiles; added to the memory the first time that it is met."""
        if step.kind in (StepKind.SYNC, StepKind.HOST, StepKind.LINK):
            if step.kind is StepKind.HOST and (key, ipu) not in self.coded:
                self.coded.add((key, ipu))
                bytes_ = estimate_control_code_bytes(CostStep(StepKind.HOST, step.name, 0.0, 1, step.moved_bytes))
                self.categories[ipu][MemoryCategory.HOST_EXCHANGE_CODE] += bytes_
            return None
        where = np.flatnonzero(step.by_tile[part])
        tiles = max(1, len(where))
        described = CostStep(
            step.kind,
            step.name,
            0.0,
            tiles,
            step.moved_bytes,
            vertex=step.vertex,
            messages_per_tile=max(1, step.pieces),
        )
        state = np.zeros(1, dtype=np.int64) if step.state_by_tile is None else step.state_by_tile[part]
        vertices = np.zeros(1, dtype=np.int64) if step.vertices_by_tile is None else step.vertices_by_tile[part]
        exchange = estimate_exchange_code_bytes(described)
        control = estimate_control_code_bytes(described)
        code = estimate_vertex_code_bytes(step.vertex) if step.vertex else 0
        if (key, ipu) not in self.coded:
            self.coded.add((key, ipu))
            found = self.categories[ipu]
            if step.vertex:
                held = self.vertex_code.setdefault(
                    f"{ipu}:{step.vertex}", np.zeros(self.program.tiles_per_ipu, dtype=np.int64)
                )
                found[MemoryCategory.VERTEX_CODE][where] += np.where(held[where] == 0, code, 0)
                held[where] = code
            if step.state_by_tile is not None:
                found[MemoryCategory.VERTEX_STATE] += state
            found[MemoryCategory.EXCHANGE_CODE][where] += exchange
            found[MemoryCategory.CONTROL_CODE] += control
        return StepCode(
            program=self.numbers.setdefault((key, ipu), len(self.numbers)),
            first_tile=int(where[0]) if len(where) else 0,
            vertex=step.vertex,
            vertex_code_bytes=code,
            vertices_per_tile=int(vertices.max(initial=0)),
            state_bytes=int(state.max(initial=0)),
            exchange_bytes=exchange,
            control_bytes=control,
        )

    def _note_buffers(self, name: str, steps: tuple[LeafStep, ...], start: int) -> None:
        """What arrives for a compute set needs a place until it has run."""
        for place, step in enumerate(steps):
            if step.buffer_by_tile is not None and "bring inputs" in step.name:
                held = split_by_ipu(self.program, step.buffer_by_tile)
                self.buffers.append((f"{name} inputs", start + place, len(self.steps) - 1, held))

    def _note_temporaries(self, leaf: nodes.LibraryNode, first_op: int) -> None:
        """Results between the calls of a library op lie evenly, from their call to their last use."""
        op = self.program.library_ops[leaf.op]
        kept = set(op.returned)
        last_use: dict[int, int] = {}
        for place, call in enumerate(op.calls):
            for number in _list_values(call.args) + _list_values(tuple(call.kwargs.values())):
                last_use[number] = place
        for place, call in enumerate(op.calls):
            if self.ops[first_op + place].family.value == "view":
                continue
            for number, shape, format_ in zip(call.results, call.shapes, call.formats, strict=True):
                if number < 0 or number in kept or number not in last_use:
                    continue
                size = int(np.prod(shape)) * np.dtype(format_).itemsize if format_ != "bfloat16" else 0
                until = self.ops[first_op + last_use[number]]
                begin = self.ops[first_op + place].first_step
                last = until.first_step + until.step_count - 1
                self.temporaries.append((f"{op.name}/{number}", first_op + place, begin, last, size))

    # -- memory ----------------------------------------------------------------------------------------------------

    def _list_variables(self, lives: Mapping[int, Life]) -> tuple[tuple[Variable, ...], dict[int, list[int]]]:
        program, found = self.program, list[Variable]()
        numbers: dict[int, list[int]] = {}
        final = max(0, len(self.steps) - 1)
        for number, life in lives.items():
            variable = program.variables[number]
            if not variable.elements:
                continue
            constant = variable.value is not None
            kind = VariableKind.CONSTANT if constant else VariableKind.VARIABLE
            for ipu, spread in spread_variable(program, variable):
                numbers.setdefault(number, []).append(len(found))
                found.append(
                    Variable(
                        index=len(found),
                        name=variable.name,
                        kind=kind,
                        shape=variable.shape,
                        dtype=variable.type.format,
                        mapping=spread,
                        always_live=life.always,
                        first_step=0 if life.always else self.spans[life.first][0],
                        last_step=final if life.always else self.spans[life.last][1],
                        op=self._find_op(life.writer),
                        ipu=ipu,
                    )
                )
        for name, first, last, held in self.buffers:
            for ipu, spread in held:
                found.append(self._make_scratch(len(found), name, spread, first, last, self.steps[first].op, ipu))
        width = program.tiles_per_ipu
        for name, op, first, last, size in self.temporaries:
            if size:
                mapping = TileMapping(0, width, size)
                found.append(self._make_scratch(len(found), name, mapping, first, last, op, 0))
        return tuple(found), numbers

    def _make_scratch(
        self, index: int, name: str, mapping: Spread | TileMapping, first: int, last: int, op: int | None, ipu: int
    ) -> Variable:
        size = mapping.total_bytes
        return Variable(index, name, VariableKind.SCRATCH, (size,), "uint8", mapping, False, first, last, op, ipu)

    def _find_op(self, leaf: int) -> int | None:
        if leaf < 0:
            return None
        first, last = self.leaf_ops[leaf]
        return last - 1 if last > first else None

    def _name_variables(self, plans: list[LeafPlan], numbers: Mapping[int, list[int]]) -> None:
        """What each leaf reads and writes, on its first and its last op."""
        for (first, last), plan in zip(self.leaf_ops, plans, strict=True):
            if last == first:
                continue
            reads = tuple(index for number in sorted(plan.touched.reads) for index in numbers.get(number, ()))
            writes = tuple(index for number in sorted(plan.touched.writes) for index in numbers.get(number, ()))
            self.ops[first] = dataclasses.replace(self.ops[first], reads=reads)
            self.ops[last - 1] = dataclasses.replace(self.ops[last - 1], writes=writes)

    def _measure(self, ipu: int, variables: tuple[Variable, ...]) -> IpuMemory:
        own = [variable for variable in variables if variable.ipu == ipu]
        live = TileLiveness(own, len(self.steps), self.program.system)
        return IpuMemory(
            ipu=ipu,
            always_live=live.always_live,
            categories=self.categories[ipu],
            peak_not_always_live=live.peak,
            peak_step_by_tile=live.peak_step,
            live_by_step=live.live_by_step,
            fullest_by_step=live.fullest_by_step,
        )

    def _make_tree(self) -> tuple[ProgramEntry, ...]:
        found = []
        for entry in self.walk.entries:
            first, last = self.spans[entry.leaf] if entry.leaf >= 0 else (-1, -2)
            found.append(ProgramEntry(entry.kind, entry.name, entry.parent, entry.count, first, last - first + 1))
        return tuple(found)


def _list_values(arguments: tuple[object, ...]) -> list[int]:
    found: list[int] = []
    for value in arguments:
        if isinstance(value, Value):
            found.append(value.number)
        elif isinstance(value, list | tuple):
            found += _list_values(tuple(value))
    return found
