"""Insights on pipelines: bubbles, and the stages that set the pace.

In: a `Case`. Out: `Finding`s, from the ticks of the pipeline and the memory of its IPUs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from openipu.report.insights.finding import Case, Evidence, Finding, Level, join_names
from openipu.report.pipeline import IpuLoad, summarise_pipeline
from openipu.report.units import format_share

MANY_BUBBLES = 0.1
HALF_EMPTY = 0.5
WORTH_BALANCING = 0.03
NEARLY_FULL = 0.9


def find_bubbles(case: Case) -> Iterator[Finding]:
    """Time that is lost while the pipeline fills and drains."""
    record = case.profile.pipeline
    if record is None:
        return
    summary = summarise_pipeline(record)
    if summary.flush_share < MANY_BUBBLES:
        return
    doubled = summarise_pipeline(dataclasses.replace(record, micro_batches=2 * record.micro_batches))
    yield Finding(
        rule="pipeline-bubbles",
        topic="time",
        level=Level.PROBLEM if summary.flush_share > HALF_EMPTY else Level.ADVICE,
        title=f"Even the busiest IPU idles {format_share(summary.flush_share)} of the time, while the pipeline fills "
        "and drains",
        value=summary.flush_share,
        unit="share",
        cause=f"{record.micro_batches:,} micro-batches for {len(record.stages)} stages: "
        f"{summary.fill_ticks + summary.drain_ticks} of {summary.ticks} ticks fill or drain. All bubbles, with those "
        f"of uneven IPUs, take {format_share(summary.bubble_share)}.",
        remedy=f"{2 * record.micro_batches:,} micro-batches between two flushes would bring that to "
        f"{format_share(doubled.flush_share)}: more gradient accumulation in training, more device iterations in "
        "inference.",
        link={"view": "pipeline"},
        evidence=tuple(
            Evidence(f"IPU {load.ipu}", f"{format_share(load.bubble_share)} idle", "", {"view": "pipeline"})
            for load in summary.ipus
        ),
    )


def find_slow_stage(case: Case) -> Iterator[Finding]:
    """IPUs that all others wait for."""
    record = case.profile.pipeline
    if record is None:
        return
    summary = summarise_pipeline(record)
    if summary.balanced_saving < WORTH_BALANCING:
        return
    pace = list(summary.pace_setters)
    others = [load for load in summary.ipus if load not in pace]
    names = _name_ipus(pace)
    least = min(summary.ipus, key=lambda load: load.tick_cycles)
    yield Finding(
        rule="slow-stage",
        topic="time",
        level=Level.ADVICE,
        title=f"{names} {'sets' if len(pace) == 1 else 'set'} the pace at {summary.slowest_ratio:.2f}x the mean",
        value=summary.slowest_ratio,
        unit="ratio",
        cause=f"A tick lasts as long as its busiest IPU: {summary.slowest.tick_cycles:,.0f} cycles on {names}, "
        f"{least.tick_cycles:,.0f} on IPU {least.ipu}.",
        remedy=_find_move(case, names, others, summary.balanced_saving),
        link={"view": "pipeline"},
        evidence=tuple(
            Evidence(
                f"IPU {load.ipu}",
                f"{load.tick_cycles:,.0f} cycles a tick, fullest tile {format_share(_measure_fill(case, load))} full",
                "",
                {"view": "pipeline"},
            )
            for load in summary.ipus
        ),
    )


def _find_move(case: Case, names: str, others: list[IpuLoad], saving: float) -> str:
    """Where layers could go: an IPU that waits and has room for them."""
    most = f"even IPUs would save {format_share(saving)} of the time."
    roomy = [load for load in others if _measure_fill(case, load) < NEARLY_FULL]
    if roomy:
        target = min(roomy, key=lambda load: load.tick_cycles)
        fill = format_share(_measure_fill(case, target))
        return f"Move layers from {names} to IPU {target.ipu}, whose fullest tile is {fill} full: {most}"
    full = _name_ipus(others)
    return (
        f"Layers of {names} cannot move to {full} as the plan stands: {'it is' if len(others) == 1 else 'they are'} "
        f"nearly full. Make room there first, or take more IPUs: {most}"
    )


def _measure_fill(case: Case, load: IpuLoad) -> float:
    """How full the fullest tile of an IPU is."""
    limit = case.profile.fit.limit_bytes
    peaks = [int(memory.peak.max(initial=0)) for memory in case.profile.memory if memory.ipu == load.ipu]
    return max(peaks, default=0) / limit if limit else 0.0


def _name_ipus(loads: list[IpuLoad]) -> str:
    return f"IPU{'' if len(loads) == 1 else 's'} {join_names(str(load.ipu) for load in loads)}"
