"""The figures people ask for first, computed once for the text, JSON and web reports.

In: a `Profile`, or a `Plan`. Out: a frozen `Summary`; every figure is modelled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openipu.machine import Provenance, System
from openipu.report.convert import build_profile
from openipu.report.pipeline import PipelineSummary, summarise_pipeline
from openipu.report.profile import CulpritRecord, FitRecord, MemoryRecord, OpRecord, Profile, TimingRecord

if TYPE_CHECKING:
    from openipu.plan.types import Plan

SLOWEST_OPS = 10
KIND_ORDER = ("compute", "exchange", "sync", "host", "link")


@dataclass(frozen=True, slots=True)
class MemoryShare:
    """One kind of memory: on the fullest tile at its worst step, and on all tiles of the replica."""

    name: str
    group: str  # "variables", "code" or "not always live"
    fullest_tile_bytes: int
    all_tiles_bytes: int


@dataclass(frozen=True, slots=True)
class IpuFit:
    """Does one IPU's part of the program fit it?"""

    ipu: int
    fits: bool
    peak_bytes: int  # of its fullest tile
    peak_tile: int
    peak_step: int
    tiles_over: int
    bytes_over: int  # sum over those tiles
    needed_bytes: int  # of all its tiles, each at its own worst step


@dataclass(frozen=True, slots=True)
class CycleShare:
    """A part of one call: a kind of step, a phase or a family of ops. Cycles of all IPUs are added up."""

    name: str
    call_cycles: float
    share: float


@dataclass(frozen=True, slots=True)
class SlowOp:
    """One op with its share of a call."""

    op: OpRecord
    call_cycles: float
    share: float
    peak_share: float | None  # of the chip's peak for its number format; None where that is unknown


@dataclass(frozen=True, slots=True)
class Guess:
    """An op without a row of its own in the op table: costed as bytes moved."""

    op: str
    count: int


@dataclass(frozen=True, eq=False)
class Summary:
    """What the first page says."""

    name: str
    openipu_version: str
    created: str
    system: System
    training: bool
    ipus_per_replica: int
    replicas: int
    micro_batch: int
    step_count: int
    op_count: int
    variable_count: int
    fit: FitRecord
    ipus: tuple[IpuFit, ...]
    memory: tuple[MemoryShare, ...]
    timing: TimingRecord
    kinds: tuple[CycleShare, ...]
    phases: tuple[CycleShare, ...]
    families: tuple[CycleShare, ...]
    slowest: tuple[SlowOp, ...]
    guesses: tuple[Guess, ...]
    guessed_share: float  # of the cycles of a call; over several IPUs, of the cycles in which they are busy
    guessed_figures: tuple[str, ...]  # figures of the machine that are guesses
    planning_seconds: float
    warnings: tuple[str, ...]
    pipeline: PipelineSummary | None

    @property
    def culprits(self) -> tuple[CulpritRecord, ...]:
        return self.fit.culprits


def summarise(source: Profile | Plan) -> Summary:
    """The figures of the first page."""
    profile = source if isinstance(source, Profile) else build_profile(source)
    steps, target = profile.steps, profile.system.target
    cycles = _weigh_steps(profile)
    families = [profile.ops[op].family if op >= 0 else "program" for op in steps.op.tolist()]
    timing = profile.timing
    whole = sum(cycles) if len(profile.memory) > 1 else timing.call_cycles
    return Summary(
        name=profile.name,
        openipu_version=profile.openipu_version,
        created=profile.created,
        system=profile.system,
        training=bool(profile.options.get("training", False)),
        ipus_per_replica=len(profile.memory),
        replicas=int(profile.options.get("replicas", 1)),
        micro_batch=profile.micro_batch,
        step_count=len(steps),
        op_count=len(profile.ops),
        variable_count=len(profile.variables),
        fit=profile.fit,
        ipus=tuple(_judge_ipu(memory, profile.fit.limit_bytes) for memory in profile.memory),
        memory=_split_memory(profile),
        timing=timing,
        kinds=_share_cycles(steps.kind, cycles, KIND_ORDER),
        phases=_share_cycles(steps.phase, cycles, ("forward", "backward", "update")),
        families=_share_cycles(families, cycles, ()),
        slowest=_rank_ops(profile),
        guesses=tuple(Guess(op, count) for op, count in sorted(profile.guesses.items(), key=lambda pair: -pair[1])),
        guessed_share=timing.guessed_cycles / whole if whole else 0.0,
        guessed_figures=tuple(
            f"{holder.name}.{name}"
            for holder in (target, profile.system)
            for name, source in holder.sources.items()
            if source.provenance is Provenance.GUESSED
        ),
        planning_seconds=profile.planning_seconds,
        warnings=profile.warnings,
        pipeline=None if profile.pipeline is None else summarise_pipeline(profile.pipeline),
    )


def element_bytes_by_op(profile: Profile) -> dict[int, int]:
    """Bytes of one element of each op's result, where the op makes a variable."""
    sizes: dict[int, int] = {}
    for variable in profile.variables:
        if variable.op is not None and variable.kind != "scratch":
            sizes.setdefault(variable.op, 2 if variable.dtype == "float16" else 4)
    return sizes


def share_of_peak(op: OpRecord, element_bytes: int | None, system: System) -> float | None:
    """How much of the chip's peak an op reaches. None where the number format is unknown or nothing is computed."""
    if element_bytes is None or not op.flops or not op.cycles:
        return None
    return op.flops / op.cycles * system.target.clock_hz / system.target.peak_flops(element_bytes)


def _judge_ipu(memory: MemoryRecord, limit_bytes: int) -> IpuFit:
    peak = memory.peak
    tile = int(peak.argmax())
    over = peak[peak > limit_bytes] - limit_bytes
    return IpuFit(
        ipu=memory.ipu,
        fits=over.size == 0,
        peak_bytes=int(peak[tile]),
        peak_tile=tile,
        peak_step=int(memory.peak_step_by_tile[tile]),
        tiles_over=int(over.size),
        bytes_over=int(over.sum()),
        needed_bytes=int(peak.sum()),
    )


def _weigh_steps(profile: Profile) -> list[float]:
    """Cycles of each step in one call."""
    steps = profile.steps
    return [
        float(cycles) * (1 if per_call else profile.executions(phase))
        for cycles, per_call, phase in zip(steps.cycles, steps.per_call, steps.phase, strict=True)
    ]


def _split_memory(profile: Profile) -> tuple[MemoryShare, ...]:
    tile = profile.fit.peak_tile
    on_tile: Counter[tuple[str, str]] = Counter()
    in_total: Counter[tuple[str, str]] = Counter()
    for memory in profile.memory:
        by_kind = profile.always_live_by_kind(memory.ipu)
        unnamed = memory.always_live - sum(by_kind.values(), start=memory.always_live * 0)
        if unnamed.any():
            by_kind["other"] = unnamed
        parts = [(("variables", kind), values) for kind, values in by_kind.items()]
        parts += [(("code", category), values) for category, values in memory.categories.items()]
        for key, values in parts:
            in_total[key] += int(values.sum())
            on_tile[key] += int(values[tile]) if memory.ipu == profile.fit.peak_ipu else 0
        key = ("not always live", "not always live")
        in_total[key] += int(memory.live_by_step.max(initial=0))
        on_tile[key] += int(memory.peak_not_always_live[tile]) if memory.ipu == profile.fit.peak_ipu else 0
    return tuple(MemoryShare(name, group, on_tile[group, name], size) for (group, name), size in in_total.items())


def _share_cycles(
    labels: list[str] | tuple[str, ...], cycles: list[float], order: tuple[str, ...]
) -> tuple[CycleShare, ...]:
    totals: dict[str, float] = dict.fromkeys(order, 0.0)
    for label, count in zip(labels, cycles, strict=True):
        totals[label] = totals.get(label, 0.0) + count
    whole = sum(totals.values()) or 1.0
    shares = [CycleShare(name, count, count / whole) for name, count in totals.items() if count]
    return tuple(shares if order else sorted(shares, key=lambda entry: -entry.call_cycles))


def _rank_ops(profile: Profile) -> tuple[SlowOp, ...]:
    whole = profile.timing.call_cycles or 1.0
    sizes = element_bytes_by_op(profile)
    costs = sorted(((op.cycles * profile.executions(op.phase), op) for op in profile.ops), key=lambda pair: -pair[0])
    return tuple(
        SlowOp(op, cycles, cycles / whole, share_of_peak(op, sizes.get(op.index), profile.system))
        for cycles, op in costs[:SLOWEST_OPS]
        if cycles
    )
