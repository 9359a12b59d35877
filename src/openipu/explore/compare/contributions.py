"""What each step contributes to one call, so that the contributions add up to the call.

In: a `Profile`. Out: exact cycles by group. A step counts as often as it runs; of IPUs that work side by side only the
busiest counts, tick by tick; exchanges between replicas take turns, and all of them count. A copy between IPUs keeps
the stage that sends it busy as well. What the plan takes off or adds beyond single steps, such as loads behind
computation, is a group of its own, so that nothing is lost.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from fractions import Fraction

from openipu.ops import StepKind
from openipu.report import PipelineRecord, Profile
from openipu.report.profile import UPDATE_PHASE

REST = "overlap and rounding"
_PROGRAM = "host streams and reductions"
_SENT = "sending to another IPU"
_LEAST_SENT = 1e-9  # of a stage's cycles: below, it is what their sum was rounded by


class Grouping(StrEnum):
    """How steps are grouped."""

    FAMILY = "family"  # "backward matmul"
    MODULE = "module"
    KIND = "kind"  # compute, exchange, sync, host, link
    OP = "op"  # "aten.addmm.default"


def sum_call(profile: Profile, grouping: Grouping) -> dict[str, Fraction]:
    """Cycles of one call by group; the values add up to `profile.timing.call_cycles`, exactly."""
    weights = _weigh_steps(profile)
    groups: dict[str, Fraction] = defaultdict(Fraction)
    for index, weight in enumerate(weights):
        if weight:
            groups[_name_group(profile, index, grouping)] += weight * Fraction(float(profile.steps.cycles[index]))
    sent = _sum_sent(profile)
    if sent:
        groups[StepKind.LINK.value if grouping is Grouping.KIND else _SENT] += sent
    rest = Fraction(profile.timing.call_cycles) - sum(groups.values(), Fraction())
    if rest:
        groups[REST] += rest
    return dict(groups)


def sum_peak(profile: Profile) -> dict[str, int]:
    """Bytes on the fullest tile at its worst step, by what they hold; the values add up to the peak."""
    fit, tiles = profile.fit, profile.system.target.tiles
    groups: dict[str, int] = defaultdict(int)
    for variable in profile.variables:
        live = variable.always_live or variable.first_step <= fit.peak_step <= variable.last_step
        if live and variable.ipu == fit.peak_ipu:
            groups[variable.kind] += variable.bytes_on_tile(fit.peak_tile, tiles)
    for memory in profile.memory:
        if memory.ipu == fit.peak_ipu:
            for category, values in memory.categories.items():
                groups[category] += int(values[fit.peak_tile])
    rest = fit.peak_bytes - sum(groups.values())
    if rest:
        groups[REST] += rest
    return {name: count for name, count in groups.items() if count}


def _weigh_steps(profile: Profile) -> list[Fraction]:
    """How often each step counts in one call."""
    steps = profile.steps
    updating = _find_busiest_update(profile)
    ticks = None if profile.pipeline is None else count_busy_ticks(profile.pipeline)
    iterations = Fraction(int(profile.options.get("device_iterations", 1)))
    training = bool(profile.options.get("training", False))
    found: list[Fraction] = []
    for index in range(len(steps)):
        if steps.per_call[index]:
            found.append(Fraction(1))
        elif steps.phase[index] == UPDATE_PHASE:
            counts = steps.kind[index] == StepKind.LINK or int(steps.ipu[index]) == updating
            found.append(iterations if counts else Fraction(0))
        elif ticks is None or profile.pipeline is None:
            found.append(Fraction(profile.executions(steps.phase[index])))
        else:
            position = _find_position(profile, profile.pipeline, index)
            found.append(Fraction(ticks.get(position, 0)) * (iterations if training else 1))
    return found


def _find_position(profile: Profile, pipeline: PipelineRecord, index: int) -> int:
    """Where in the pipeline a step's stage stands."""
    stage = int(profile.steps.stage[index])
    return stage if profile.steps.phase[index] == "forward" else 2 * pipeline.last_stage - stage


def _sum_sent(profile: Profile) -> Fraction:
    """Cycles of one call in which stages that others wait for send: what their own steps leave of them."""
    pipeline, steps = profile.pipeline, profile.steps
    if pipeline is None:
        return Fraction()
    own: dict[int, Fraction] = defaultdict(Fraction)
    for index in range(len(steps)):
        if not steps.per_call[index] and steps.phase[index] != UPDATE_PHASE:
            own[_find_position(profile, pipeline, index)] += Fraction(float(steps.cycles[index]))
    ticks = count_busy_ticks(pipeline)
    found = Fraction()
    for stage in pipeline.stages:
        sent = Fraction(stage.cycles) - own[stage.index]
        if sent > stage.cycles * _LEAST_SENT:
            found += ticks.get(stage.index, 0) * sent
    iterations = int(profile.options.get("device_iterations", 1))
    return found * (iterations if profile.options.get("training", False) else 1)


def count_busy_ticks(pipeline: PipelineRecord) -> dict[int, int]:
    """In how many ticks each stage is one of those that the others wait for."""
    counts: dict[int, int] = defaultdict(int)
    stages, micro_batches = pipeline.stages, pipeline.micro_batches
    total = micro_batches + len(stages) - 1
    filling = min(len(stages), micro_batches) - 1
    for tick in range(total):
        if micro_batches >= len(stages) and filling < tick < total - filling:
            continue  # a steady tick: all stages work, and one of them was counted
        repeats = 1
        if micro_batches >= len(stages) and tick == filling:
            repeats = total - 2 * filling
        by_ipu: dict[int, float] = defaultdict(float)
        active = [stage for stage in stages if 0 <= tick - stage.index < micro_batches]
        for stage in active:
            by_ipu[stage.ipu] += stage.cycles
        busiest = max(by_ipu, key=lambda ipu: by_ipu[ipu], default=None)
        for stage in active:
            if stage.ipu == busiest:
                counts[stage.index] += repeats
    return dict(counts)


def _find_busiest_update(profile: Profile) -> int:
    by_ipu: dict[int, float] = defaultdict(float)
    steps = profile.steps
    for index in range(len(steps)):
        counts = steps.phase[index] == UPDATE_PHASE and not steps.per_call[index]
        if counts and steps.kind[index] != StepKind.LINK:
            by_ipu[int(steps.ipu[index])] += float(steps.cycles[index])
    return max(by_ipu, key=lambda ipu: by_ipu[ipu], default=0)


def _name_group(profile: Profile, index: int, grouping: Grouping) -> str:
    steps = profile.steps
    if grouping is Grouping.KIND:
        return steps.kind[index]
    number = int(steps.op[index])
    if number < 0:
        return f"{steps.phase[index]} {_PROGRAM}" if grouping is Grouping.FAMILY else _PROGRAM
    op = profile.ops[number]
    if grouping is Grouping.FAMILY:
        return f"{op.phase} {op.family}"
    return op.op if grouping is Grouping.OP else op.module or "(no module)"
