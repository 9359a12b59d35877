"""A trace as Chrome trace events, which Perfetto and chrome://tracing open.

In: a `HostTrace`. Out: a JSON document, or a file of it; one that ends in `.gz` is compressed.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openipu.report.atomic import write_aside
from openipu.trace.read import MOMENT, HostTrace, ProcessTrace, ThreadTrace, describe_details


def write_chrome_trace(trace: HostTrace, path: Path) -> Path:
    """Write the document to `path`, replacing an older one in a single move."""
    text = json.dumps(to_chrome_trace(trace), separators=(",", ":"))
    with write_aside(path) as part:
        part.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def to_chrome_trace(trace: HostTrace) -> dict[str, Any]:
    """All events. Times are microseconds since the first."""
    events = [event for process in trace.processes for event in _list_process(process, trace.first_ns)]
    return {"displayTimeUnit": "ms", "otherData": {"writer": "openipu (unofficial)"}, "traceEvents": events}


def _list_process(process: ProcessTrace, first_ns: int) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": process.pid, "args": {"name": process.command}}
    for thread in process.threads:
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": process.pid,
            "tid": thread.tid,
            "args": {"name": thread.name},
        }
        yield from _list_thread(thread, process.pid, first_ns)
    for series in process.series:
        name = f"{series.graph} [{series.unit}]" if series.unit else series.graph
        for time_ns, value in zip(series.time_ns.tolist(), series.values.tolist(), strict=True):
            timestamp = (time_ns - first_ns) / 1000
            yield {
                "ph": "C",
                "name": name,
                "pid": process.pid,
                "ts": timestamp,
                "args": {series.label: value if math.isfinite(value) else None},
            }
    for heatmap in process.heatmaps:
        for time_ns, counts in zip(heatmap.time_ns.tolist(), heatmap.counts.tolist(), strict=True):
            bins = {f"{edge:g}": count for edge, count in zip(heatmap.edges, counts, strict=False)}
            yield {
                "ph": "C",
                "name": heatmap.name,
                "pid": process.pid,
                "ts": (time_ns - first_ns) / 1000,
                "args": bins,
            }


def _list_thread(thread: ThreadTrace, pid: int, first_ns: int) -> Iterator[dict[str, Any]]:
    columns = (thread.channel, thread.label, thread.start_ns, thread.duration_ns)
    rows = zip(*(column.tolist() for column in columns), thread.details, strict=True)
    for channel, label, start_ns, duration_ns, details in rows:
        event: dict[str, Any] = {
            "name": thread.names[label],
            "cat": thread.names[channel],
            "pid": pid,
            "tid": thread.tid,
            "ts": (start_ns - first_ns) / 1000,
        }
        event |= {"ph": "i", "s": "t"} if duration_ns == MOMENT else {"ph": "X", "dur": duration_ns / 1000}
        if details:
            event["args"] = describe_details(details)
        yield event
