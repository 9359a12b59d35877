"""How stages over several IPUs take turns: the time of a micro-batch, and the ticks of a pipeline.

In: steps with stage, IPU and phase. Out: cycles.
A pipeline of S forward stages has 2 S - 1 stages in training: the last one's backward follows at once, the others'
come in reverse. In a tick every stage works on another micro-batch; an IPU that holds two stages does both in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openipu.graph import Phase, RunOptions, Strategy
from openipu.ops.cost import StepKind
from openipu.plan.types import Pipeline, PipelineStage, PlannedStep


@dataclass(frozen=True, slots=True)
class Busy:
    """Cycles of one micro-batch and of one update."""

    cycles: float  # between two micro-batches
    first_ipu_cycles: float  # the part of it in which the first IPU works
    update_cycles: float
    pipeline: Pipeline | None


def measure_micro_batch(steps: Sequence[PlannedStep], options: RunOptions, last_stage: int) -> Busy:
    """Add the steps up as the strategy takes turns."""
    update_cycles = measure_update([step for step in steps if step.phase is Phase.UPDATE and not step.per_call])
    working = [step for step in steps if step.phase is not Phase.UPDATE and not step.per_call]
    if last_stage > 0 and options.strategy is Strategy.PIPELINED:
        pipeline = _build_pipeline(working, options, last_stage)
        first = sum(stage.cycles for stage in pipeline.stages if stage.ipu == pipeline.stages[0].ipu)
        return Busy(pipeline.steady_cycles, first, update_cycles, pipeline)
    if options.strategy is Strategy.PARALLEL_PHASES:
        cycles = _overlap_loads(working)
    else:
        cycles = sum(step.cycles for step in working)
    return Busy(cycles, cycles, update_cycles, None)


def measure_update(steps: Iterable[PlannedStep]) -> float:
    """Cycles of one update. IPUs work side by side on their own weights; what crosses links, replicas do in step.

    All IPUs of all replicas meet at the sync before and after an exchange between replicas, whichever of them send. So
    exchanges of different IPUs follow each other.
    """
    own: dict[int, float] = defaultdict(float)
    shared = 0.0
    for step in steps:
        if step.kind is StepKind.LINK:
            shared += step.cycles
        else:
            own[step.ipu] += step.cycles
    return max(own.values(), default=0.0) + shared


def _build_pipeline(steps: Sequence[PlannedStep], options: RunOptions, last_stage: int) -> Pipeline:
    count = 2 * last_stage + 1 if options.training else last_stage + 1
    cycles = [0.0] * count
    places: list[dict[int, float]] = [defaultdict(float) for _ in range(count)]
    for step in steps:
        index = _find_index(step.stage, step.phase, last_stage)
        cycles[index] += step.cycles
        places[index][step.ipu] += step.cycles
        if step.sender is not None:  # a copy keeps both of its IPUs busy
            cycles[_find_index(*step.sender, last_stage)] += step.cycles
    stages = tuple(
        PipelineStage(
            index=index,
            ipu=max(places[index], key=lambda ipu: places[index][ipu], default=0),
            forward=index <= last_stage,
            backward=options.training and index >= last_stage,
            cycles=cycles[index],
        )
        for index in range(count)
    )
    flushes = options.training and not options.continuous  # else once a call
    batches = options.gradient_accumulation if flushes else options.device_iterations
    return make_pipeline(stages, batches)


def _find_index(stage: int, phase: Phase, last_stage: int) -> int:
    """The place of a forward or backward stage in the pipeline."""
    return stage if phase is Phase.FORWARD else 2 * last_stage - stage


def make_pipeline(stages: tuple[PipelineStage, ...], micro_batches: int) -> Pipeline:
    """The ticks: in tick t, stage p is busy when 0 <= t - p < micro_batches."""
    count = len(stages)

    def time_tick(tick: int) -> float:
        return _find_slowest(stage for stage in stages if 0 <= tick - stage.index < micro_batches)

    filling = min(count, micro_batches) - 1
    ticks = micro_batches + count - 1
    steady = ticks - 2 * filling  # with fewer micro-batches than stages: ticks in which all of them are under way
    if micro_batches >= count:
        steady_cycles = _find_slowest(stages)
    else:
        between = [time_tick(tick) for tick in range(filling, filling + steady)]
        steady_cycles = sum(between) / len(between)
    return Pipeline(
        stages=stages,
        micro_batches=micro_batches,
        fill_cycles=tuple(time_tick(tick) for tick in range(filling)),
        steady_cycles=steady_cycles,
        steady_ticks=steady,
        drain_cycles=tuple(time_tick(tick) for tick in range(ticks - filling, ticks)),
    )


def _find_slowest(active: Iterable[PipelineStage]) -> float:
    by_ipu: dict[int, float] = defaultdict(float)
    for stage in active:
        by_ipu[stage.ipu] += stage.cycles
    return max(by_ipu.values(), default=0.0)


def _overlap_loads(steps: Sequence[PlannedStep]) -> float:
    """Parallel phases: while one set of IPUs computes a phase, the other loads the next one's tensors."""
    loads: dict[tuple[bool, int], float] = defaultdict(float)
    work: dict[tuple[bool, int], float] = defaultdict(float)
    for step in steps:
        backward = step.phase is Phase.BACKWARD
        turn = (backward, -step.stage if backward else step.stage)
        is_load = step.kind is StepKind.HOST and step.op is not None
        (loads if is_load else work)[turn] += step.cycles
    turns = sorted({*loads, *work})
    total = loads[turns[0]] if turns else 0.0
    for turn, following in zip(turns, [*turns[1:], None], strict=True):
        total += max(work[turn], loads[following] if following is not None else 0.0)
    return total
