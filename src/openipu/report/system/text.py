"""The system report for a terminal, and as JSON.

In: a `HostTrace`. Out: aligned lines, or one plain document.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from openipu.report.system.summary import SystemSummary, summarise_trace
from openipu.report.units import format_seconds, format_share
from openipu.trace.read import HostTrace

_LABELS = 15
_WIDTH = 48


def render_trace_text(trace: HostTrace) -> str:
    """The whole summary, ending with a newline."""
    summary = summarise_trace(trace)
    commands = dict.fromkeys(process.command for process in trace.processes)
    lines = [
        f"Trace of {', '.join(commands) or 'nothing'}: {format_seconds(summary.seconds)}, {summary.events:,} events of "
        f"{_count(summary.processes, 'process', 'processes')}, {_count(summary.threads, 'thread', 'threads')}",
        "All times were measured on this host; for those of an IPU see the profile.",
        "",
        "Activities (without what is inside them)",
        *_align(
            ("", "time", "of all", "events"),
            [
                (entry.channel, format_seconds(entry.self_seconds), format_share(entry.share), f"{entry.events:,}")
                for entry in summary.activities
            ],
        ),
        *_render_loop(summary),
        "",
        "What took longest",
        *_align(
            ("", "activity", "own time", "total", "mean", "longest", "events"),
            [
                (
                    entry.label if len(entry.label) <= _WIDTH else entry.label[: _WIDTH - 1] + "…",
                    entry.channel,
                    *map(format_seconds, (entry.self_seconds, entry.total_seconds)),
                    *map(format_seconds, (entry.mean_seconds, entry.longest_seconds)),
                    f"{entry.events:,}",
                )
                for entry in summary.labels[:_LABELS]
            ],
            left=2,
        ),
    ]
    lines += [line for finding in summary.findings for line in ("", finding)]
    return "\n".join(lines) + "\n"


def describe_trace(trace: HostTrace) -> dict[str, Any]:
    """The summary as plain JSON."""
    summary = summarise_trace(trace)
    return {
        "measured": True,
        "files": [str(process.path) for process in trace.processes],
        **dataclasses.asdict(summary),
    }


def _render_loop(summary: SystemSummary) -> list[str]:
    loop = summary.loop
    if loop is None:
        return []
    parts = (
        f"run {format_share(loop.running)}",
        f"wait for data {format_share(loop.waiting_for_data)}",
        f"compile {format_share(loop.compiling)}",
        f"not marked {format_share(loop.unmarked)}",
    )
    return ["", f"Loop of {_count(loop.calls, 'call', 'calls')}, {format_seconds(loop.seconds)}: {', '.join(parts)}"]


def _align(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    table = [header, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(header))]
    return [
        "  "
        + "  ".join(
            f"{cell:<{width}}" if place < left else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
