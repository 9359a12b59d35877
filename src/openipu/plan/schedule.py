"""Pass "schedule": tasks and streams become bulk-synchronous steps.

In: a priced and placed `Workload`. Out: steps in order, and for each task the range of its steps.
One program: host streams in, then for each task [sync, exchange]* compute ..., gradient reduction, host streams out.
Every exchange phase is preceded by a sync; phases that follow each other at once share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from openipu.graph import Phase, RunOptions
from openipu.machine import System
from openipu.ops.cost import CostStep, StepKind
from openipu.ops.vertex_code import (
    estimate_control_code_bytes,
    estimate_exchange_code_bytes,
    estimate_step_state_bytes,
    estimate_vertex_code_bytes,
)
from openipu.plan.lowering.transfers import COPY
from openipu.plan.streams import HOST_WAIT, find_host_wait
from openipu.plan.types import PlannedStep, StepCode
from openipu.plan.work import Place, Stream, Task, Workload


@dataclass(frozen=True, slots=True)
class Schedule:
    """Steps, and where each task lies among them."""

    steps: tuple[PlannedStep, ...]
    first_step: tuple[int, ...]  # by task index
    last_step: tuple[int, ...]


def schedule_steps(workload: Workload, system: System, options: RunOptions) -> Schedule:
    """Lay the steps out in order; where the host cannot keep up, begin with the wait for it."""
    schedule = _lay_out(workload, system)
    wait_cycles = find_host_wait(workload, schedule.steps, system, options)
    if wait_cycles <= 0:
        return schedule
    place = workload.streams_in[0].place if workload.streams_in else Place(0, 0, Phase.FORWARD)
    workload.streams_in.insert(0, Stream(StepKind.HOST, HOST_WAIT, 0, wait_cycles, place))
    return _lay_out(workload, system)


def _lay_out(workload: Workload, system: System) -> Schedule:
    builder = _Builder(system)
    for stream in workload.streams_in:
        builder.add_stream(stream)
    first: list[int] = []
    last: list[int] = []
    reduced = False
    for task in workload.tasks:
        if task.phase is Phase.UPDATE and not reduced:
            reduced = True
            for stream in workload.reductions:
                builder.add_stream(stream)
        start = len(builder.steps)
        builder.begin(task)
        for place, step in enumerate(_list_task_steps(task)):
            builder.add(step, task, place)
        if len(builder.steps) == start:  # free, yet it needs a place in time for liveness
            builder.add(CostStep(StepKind.COMPUTE, task.site.op, 0.0, 0), task, None)
        first.append(start)
        last.append(len(builder.steps) - 1)
    for stream in workload.streams_out:
        builder.add_stream(stream)
    return Schedule(tuple(builder.steps), tuple(first), tuple(last))


def _list_task_steps(task: Task) -> Iterable[CostStep]:
    """The op's own steps, with the moves of misplaced operands merged into a leading exchange."""
    steps = list(task.priced.steps)
    if task.moves:
        move = CostStep(
            StepKind.EXCHANGE,
            "rearrange operands",
            sum(move.cycles for move in task.moves),
            max(move.tiles for move in task.moves),
            moved_bytes=sum(move.moved_bytes for move in task.moves),
            messages_per_tile=len(task.moves),
        )
        steps.insert(0, move)
    return steps


class _Builder:
    def __init__(self, system: System) -> None:
        self.launch_cycles = system.target.phase_launch_cycles
        self.tiles = system.target.tiles
        self.steps: list[PlannedStep] = []
        # Repeated parts of a graph are outlined into one callable part: equal ops of an IPU share their programs.
        self._programs: dict[tuple[int, int, int, int], int] = {}
        self._codes: dict[tuple[int, int], StepCode] = {}  # by program and first tile
        self._first_tile = 0

    def begin(self, task: Task) -> None:
        self._first_tile = _find_first_tile(task)

    def add(self, step: CostStep, task: Task, place: int | None) -> None:
        """`place` is the step's number among those of its op; None for one that stands for no work."""
        if step.kind is StepKind.EXCHANGE:
            previous = self.steps[-1] if self.steps else None
            follows = previous is not None and previous.kind is StepKind.EXCHANGE and previous.op == task.index
            syncs = step.repeats - (1 if follows else 0)
            if syncs > 0:
                self._append(StepKind.SYNC, "sync", self.launch_cycles * syncs, self.tiles, 0, 0, task, syncs, None)
        self._append(
            step.kind,
            step.name,
            step.total_cycles,
            step.tiles,
            step.moved_bytes * step.repeats,
            step.flops * step.repeats,
            task,
            step.repeats,
            None if place is None else self._describe_code(step, task, place),
        )

    def _describe_code(self, step: CostStep, task: Task, place: int) -> StepCode:
        # Bringing operands is a program of its own: an op with it shares the rest with the same op without.
        own = place - (1 if task.moves else 0)
        key = (task.place.ipu, id(task.cost), len(task.moves) if own < 0 else 0, own)
        program = self._programs.setdefault(key, len(self._programs))
        # What was moved, and with it the code for that, differs between two ops of one price.
        known = self._codes.get((program, self._first_tile)) if own >= 0 else None
        if known is not None:
            return known
        code = self._codes[program, self._first_tile] = StepCode(
            program=program,
            first_tile=self._first_tile,
            vertex=step.vertex,
            vertex_code_bytes=estimate_vertex_code_bytes(step.vertex) if step.vertex else 0,
            vertices_per_tile=step.vertices_per_tile if step.vertex else 0,
            state_bytes=estimate_step_state_bytes(step),
            exchange_bytes=estimate_exchange_code_bytes(step),
            control_bytes=estimate_control_code_bytes(step),
        )
        return code

    def add_stream(self, stream: Stream) -> None:
        self.steps.append(
            PlannedStep(
                index=len(self.steps),
                kind=stream.kind,
                name=stream.name,
                cycles=stream.cycles,
                tiles=self.tiles,
                moved_bytes=stream.moved_bytes,
                flops=0,
                op=None,
                phase=stream.place.phase,
                ipu=stream.place.ipu,
                stage=stream.place.stage,
                per_call=stream.per_call,
            )
        )

    def _append(
        self,
        kind: StepKind,
        name: str,
        cycles: float,
        tiles: int,
        moved_bytes: int,
        flops: int,
        task: Task,
        repeats: int,
        code: StepCode | None,
    ) -> None:
        self.steps.append(
            PlannedStep(
                index=len(self.steps),
                kind=kind,
                name=name,
                cycles=cycles,
                tiles=tiles,
                moved_bytes=moved_bytes,
                flops=flops,
                op=task.index,
                phase=task.phase,
                repeats=repeats,
                ipu=task.place.ipu,
                stage=task.place.stage,
                code=code,
                sender=_find_sender(task) if kind is StepKind.LINK else None,
            )
        )


def _find_sender(task: Task) -> tuple[int, Phase] | None:
    """Where a copy between IPUs comes from."""
    made = task.reads[0].storage.root.place if task.site.op == COPY and task.reads else None
    return (made.stage, made.phase) if made is not None and made.phase is not Phase.UPDATE else None


def _find_first_tile(task: Task) -> int:
    for value in task.writes:
        mapping = value.storage.root.mapping
        if mapping is not None:
            return mapping.first_tile
    return 0
