"""Insights on pipelines: bubbles, and the stage that sets the pace.

In: a `Case`. Out: `Finding`s, from the ticks of the pipeline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from openipu.report.insights.finding import Case, Evidence, Finding, Level
from openipu.report.pipeline import summarise_pipeline
from openipu.report.units import format_share

MANY_BUBBLES = 0.1
HALF_EMPTY = 0.5
WORTH_BALANCING = 0.03


def find_bubbles(case: Case) -> Iterator[Finding]:
    """IPUs that idle while the pipeline fills and drains."""
    record = case.profile.pipeline
    if record is None:
        return
    summary = summarise_pipeline(record)
    empty = sum(load.empty_cycles for load in summary.ipus) / (len(summary.ipus) * summary.total_cycles or 1)
    if empty < MANY_BUBBLES:
        return
    doubled = summarise_pipeline(dataclasses.replace(record, micro_batches=2 * record.micro_batches))
    yield Finding(
        rule="pipeline-bubbles",
        topic="time",
        level=Level.PROBLEM if empty > HALF_EMPTY else Level.ADVICE,
        title=f"IPUs idle {format_share(empty)} of the time while the pipeline fills and drains",
        value=empty,
        unit="share",
        cause=f"{record.micro_batches:,} micro-batches for {len(record.stages)} stages: "
        f"{summary.fill_ticks + summary.drain_ticks} "
        f"of {summary.ticks} ticks fill or drain.",
        remedy=f"{2 * record.micro_batches:,} micro-batches between two flushes would bring all bubbles from "
        f"{format_share(summary.bubble_share)} to {format_share(doubled.bubble_share)}: more gradient accumulation "
        "in training, "
        "more device iterations in inference.",
        link={"view": "pipeline"},
        evidence=tuple(
            Evidence(f"IPU {load.ipu}", f"{format_share(load.bubble_share)} idle", "", {"view": "pipeline"})
            for load in summary.ipus
        ),
    )


def find_slow_stage(case: Case) -> Iterator[Finding]:
    """One IPU that all others wait for."""
    record = case.profile.pipeline
    if record is None:
        return
    summary = summarise_pipeline(record)
    if summary.balanced_saving < WORTH_BALANCING:
        return
    least = min(summary.ipus, key=lambda load: load.tick_cycles)
    yield Finding(
        rule="slow-stage",
        topic="time",
        level=Level.ADVICE,
        title=f"IPU {summary.slowest.ipu} sets the pace at {summary.slowest_ratio:.2f}x the mean",
        value=summary.slowest_ratio,
        unit="ratio",
        cause=f"A tick lasts as long as its busiest IPU: {summary.slowest.tick_cycles:,.0f} cycles on IPU "
        f"{summary.slowest.ipu}, "
        f"{least.tick_cycles:,.0f} on IPU {least.ipu}.",
        remedy=f"Move layers from IPU {summary.slowest.ipu} to IPU {least.ipu}: even IPUs would save "
        f"{format_share(summary.balanced_saving)} of the time.",
        link={"view": "pipeline"},
        evidence=tuple(
            Evidence(f"IPU {load.ipu}", f"{load.tick_cycles:,.0f} cycles a tick", "", {"view": "pipeline"})
            for load in summary.ipus
        ),
    )
