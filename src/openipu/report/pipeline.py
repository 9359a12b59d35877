"""What a pipeline tells: how long each IPU idles, which one sets the pace, and what evening them out would save.

In: a `PipelineRecord`. Out: a frozen `PipelineSummary`; every figure follows from the stages' cycles and the rule of
ticks: in tick t, stage p works on micro-batch t - p, and all IPUs wait for the one that takes longest.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from openipu.report.profile import PipelineRecord, StageRecord

TIE = 0.98  # of the slowest: nothing is won by relieving one of them alone


@dataclass(frozen=True, slots=True)
class StageShare:
    """One stage with its part of the work that a micro-batch makes."""

    record: StageRecord
    number: int  # the user's
    share: float  # of the cycles of all stages

    @property
    def passes(self) -> str:
        """What the stage does: "forward", "backward" or "forward and backward"."""
        names = [name for name in ("forward", "backward") if getattr(self.record, name)]
        return " and ".join(names)


@dataclass(frozen=True, slots=True)
class IpuLoad:
    """One IPU from the first micro-batch's entry to the last one's exit."""

    ipu: int
    stages: tuple[int, ...]  # the user's numbers
    tick_cycles: float  # one micro-batch through all its stages
    busy_cycles: float
    empty_cycles: float  # ticks that have nothing for it: the pipeline fills or drains
    waiting_cycles: float  # ticks in which it is done before the slowest IPU

    @property
    def bubble_share(self) -> float:
        """Idle cycles of all cycles."""
        idle = self.empty_cycles + self.waiting_cycles
        whole = self.busy_cycles + idle
        return idle / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """The figures of a pipeline that people ask for."""

    stages: tuple[StageShare, ...]
    ipus: tuple[IpuLoad, ...]
    micro_batches: int
    fill_ticks: int
    steady_ticks: int
    drain_ticks: int
    steady_cycles: float
    total_cycles: float
    bubble_share: float  # mean of the IPUs
    flush_share: float  # of the time, in which even the busiest IPU has nothing to do: the pipeline fills and drains
    slowest: IpuLoad
    slowest_ratio: float  # to the mean of the IPUs
    balanced_saving: float  # share of total_cycles that equal IPUs would save

    @property
    def ticks(self) -> int:
        return self.fill_ticks + self.steady_ticks + self.drain_ticks

    @property
    def stage_count(self) -> int:
        """Stages as the user counts them."""
        return len({stage.number for stage in self.stages})

    @property
    def pace_setters(self) -> tuple[IpuLoad, ...]:
        """The IPUs that all others wait for: those that take as long as the slowest, or nearly."""
        return tuple(load for load in self.ipus if load.tick_cycles >= TIE * self.slowest.tick_cycles)

    @property
    def _is_tie(self) -> bool:
        return 1 < len(self.pace_setters) < len(self.ipus)

    @property
    def slowest_name(self) -> str:
        """The stages that set the pace, with their IPU; where IPUs tie, all of these."""
        if self._is_tie:
            ipus = [str(load.ipu) for load in self.pace_setters]
            return f"IPUs {', '.join(ipus[:-1])} and {ipus[-1]}, which tie"
        numbers = [str(number) for number in self.slowest.stages]
        listed = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} and {numbers[-1]}"
        return f"stage{'' if len(numbers) == 1 else 's'} {listed} on IPU {self.slowest.ipu}"

    @property
    def finding(self) -> str:
        """One sentence on the balance of the IPUs."""
        if len(self.ipus) == 1:
            return f"All stages are on IPU {self.slowest.ipu}: they take turns, and nothing runs at the same time."
        several = len(self.slowest.stages) > 1 or self._is_tie
        verb, pronoun = ("are", "them") if several else ("is", "it")
        ratio = f"{verb} {self.slowest_name}, at {self.slowest_ratio:.2f}x the mean of the IPUs"
        if self.slowest_ratio < 1.02:
            found = f"The IPUs are even: slowest {ratio}."
        elif self.balanced_saving < 0.005:
            found = f"Slowest {ratio}; moving layers away from {pronoun} would save nothing."
        else:
            saving = f"{self.balanced_saving * 100:.0f} %"
            found = f"Slowest {ratio}: moving layers away from {pronoun} would save up to {saving} of the time."
        return found + self._describe_shortage()

    def _describe_shortage(self) -> str:
        """A pipeline with fewer micro-batches than stages, forward and backward counted apart, is never full."""
        if self.micro_batches >= len(self.stages):
            return ""
        few = "1 micro-batch" if self.micro_batches == 1 else f"{self.micro_batches} micro-batches"
        stages = f"{len(self.stages)} stages"
        if any(stage.record.backward for stage in self.stages):
            stages += " in both directions"
        return f" With {few} for {stages} the pipeline is never full."


def summarise_pipeline(pipeline: PipelineRecord) -> PipelineSummary:
    """The loads of the IPUs and the one that sets the pace."""
    tick_cycles: dict[int, float] = defaultdict(float)
    numbers: dict[int, set[int]] = defaultdict(set)
    for stage in pipeline.stages:
        tick_cycles[stage.ipu] += stage.cycles
        numbers[stage.ipu].add(pipeline.number_of(stage))
    idle = _measure_idle(pipeline)
    loads = tuple(
        IpuLoad(
            ipu=ipu,
            stages=tuple(sorted(numbers[ipu])),
            tick_cycles=tick_cycles[ipu],
            busy_cycles=tick_cycles[ipu] * pipeline.micro_batches,
            empty_cycles=idle[ipu][0],
            waiting_cycles=idle[ipu][1],
        )
        for ipu in sorted(tick_cycles)
    )
    work = sum(tick_cycles.values())
    mean = work / len(loads)
    slowest = max(loads, key=lambda load: load.tick_cycles)
    return PipelineSummary(
        stages=tuple(
            StageShare(stage, pipeline.number_of(stage), stage.cycles / work if work else 0.0)
            for stage in pipeline.stages
        ),
        ipus=loads,
        micro_batches=pipeline.micro_batches,
        fill_ticks=len(pipeline.fill_cycles),
        steady_ticks=pipeline.steady_ticks,
        drain_ticks=len(pipeline.drain_cycles),
        steady_cycles=pipeline.steady_cycles,
        total_cycles=pipeline.total_cycles,
        bubble_share=sum(load.bubble_share for load in loads) / len(loads),
        flush_share=_measure_flush(pipeline, slowest.busy_cycles),
        slowest=slowest,
        slowest_ratio=slowest.tick_cycles / mean if mean else 1.0,
        balanced_saving=_estimate_saving(pipeline, tick_cycles, mean),
    )


def _list_ticks(pipeline: PipelineRecord) -> Iterator[tuple[int, dict[int, float]]]:
    """Runs of equal ticks: how many, and the cycles of each IPU that has work in them."""
    count, batches = len(pipeline.stages), pipeline.micro_batches
    ticks = batches + count - 1
    tick = 0
    while tick < ticks:
        load: dict[int, float] = defaultdict(float)
        for stage in pipeline.stages:
            if 0 <= tick - stage.index < batches:
                load[stage.ipu] += stage.cycles
        # Every stage is busy from the last one's first micro-batch to the first one's last: these ticks are equal.
        run = max(1, batches - tick) if tick == count - 1 else 1
        yield run, dict(load)
        tick += run


def _measure_idle(pipeline: PipelineRecord) -> dict[int, tuple[float, float]]:
    """Cycles of each IPU in ticks without work for it, and cycles in which it waits for slower ones."""
    ipus = {stage.ipu for stage in pipeline.stages}
    empty, waiting = dict.fromkeys(ipus, 0.0), dict.fromkeys(ipus, 0.0)
    for run, load in _list_ticks(pipeline):
        length = max(load.values())
        for ipu in ipus:
            if ipu in load:
                waiting[ipu] += run * (length - load[ipu])
            else:
                empty[ipu] += run * length
    return {ipu: (empty[ipu], waiting[ipu]) for ipu in ipus}


def _time_ticks(pipeline: PipelineRecord) -> float:
    return sum(run * max(load.values()) for run, load in _list_ticks(pipeline))


def _measure_flush(pipeline: PipelineRecord, busiest: float) -> float:
    total = _time_ticks(pipeline)
    return max(0.0, 1 - busiest / total) if total else 0.0


def _estimate_saving(pipeline: PipelineRecord, tick_cycles: dict[int, float], mean: float) -> float:
    """What is saved if every IPU took the mean: its stages keep their proportions."""
    total = _time_ticks(pipeline)
    if not total:
        return 0.0
    scale = {ipu: mean / cycles if cycles else 1.0 for ipu, cycles in tick_cycles.items()}
    even = tuple(dataclasses.replace(stage, cycles=stage.cycles * scale[stage.ipu]) for stage in pipeline.stages)
    return max(0.0, 1 - _time_ticks(dataclasses.replace(pipeline, stages=even)) / total)
