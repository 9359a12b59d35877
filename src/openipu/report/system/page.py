"""The system report as one HTML file that opens from disk, with nothing to fetch.

In: a `HostTrace` and the parts in `web_system/`. Out: the page with its style, scripts and data inside.

The data is one block: a little-endian uint32 length, that many bytes of JSON, zeros up to a multiple of eight, then
columns as typed arrays; all of it zlib-compressed and in base64. `web_system/data.js` is the other end.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import re
import struct
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from openipu import __version__
from openipu.report.atomic import write_aside
from openipu.report.system.summary import summarise_trace
from openipu.trace.read import HostTrace, ProcessTrace

SCRIPTS = (
    "../web/svg.js",
    "data.js",
    "rows.js",
    "graphs.js",
    "moves.js",
    "lanes.js",
    "search.js",
    "tables.js",
    "system.js",
)


def write_system_page(trace: HostTrace, path: Path) -> Path:
    """Write the report to `path`, replacing an older one in a single move."""
    path = Path(path)
    with write_aside(path) as part:
        part.write_text(render_system_page(trace), encoding="utf-8")
    return path


def render_system_page(trace: HostTrace) -> str:
    """The whole page as text."""
    commands = dict.fromkeys(process.command for process in trace.processes)
    parts = {
        "title": html.escape(f"{', '.join(commands)[:80]} · trace · openipu (unofficial)"),
        "style": _read_part("system.css"),
        "data": base64.b64encode(zlib.compress(pack_trace(trace), 6)).decode("ascii"),
        "script": "\n".join(_read_part(name) for name in SCRIPTS),
    }
    # In one pass, so that braces in a name stay what they are.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _read_part("system.html"))


def pack_trace(trace: HostTrace) -> bytes:
    """The data block before compression."""
    columns = _Columns()
    names: dict[str, int] = {}
    summary = dataclasses.asdict(summarise_trace(trace))
    document = {
        "version": __version__,
        "first_ns": str(trace.first_ns),
        "span_us": (trace.last_ns - trace.first_ns) / 1000,
        "summary": {**summary, "labels": []},  # the page adds up what it shows
        "processes": [_pack_process(process, trace.first_ns, columns, names) for process in trace.processes],
        "names": list(names),
    }
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("utf-8")
    padding = -(4 + len(head)) % 8
    return struct.pack("<I", len(head)) + head + bytes(padding) + b"".join(columns.blocks)


class _Columns:
    """Typed arrays on eight-byte borders."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self._offset = 0

    def add(self, values: Any, kind: str) -> list[Any]:
        """Add one column; returns how to find it: type, offset after the JSON, length."""
        array = np.asarray(values).astype(f"<{kind}")
        block = array.tobytes()
        place = [kind, self._offset, int(array.size)]
        block += bytes(-len(block) % 8)
        self.blocks.append(block)
        self._offset += len(block)
        return place


def _pack_process(process: ProcessTrace, first_ns: int, columns: _Columns, names: dict[str, int]) -> dict[str, Any]:
    threads = []
    for thread in process.threads:
        numbers = np.array([names.setdefault(name, len(names)) for name in thread.names])
        threads.append(
            {
                "tid": thread.tid,
                "name": thread.name,
                "channel": columns.add(numbers[thread.channel], "i4"),
                "label": columns.add(numbers[thread.label], "i4"),
                "start": columns.add((thread.start_ns - first_ns) / 1000, "f8"),
                "duration": columns.add(np.where(thread.duration_ns < 0, -1, thread.duration_ns / 1000), "f8"),
                "depth": columns.add(thread.depths, "i4"),
                "own": columns.add(thread.self_ns / 1000, "f8"),
                "details": {str(at): text for at, text in enumerate(thread.details) if text},
            }
        )
    return {
        "pid": process.pid,
        "command": process.command,
        "file": process.path.name,
        "threads": threads,
        "series": [
            {
                "graph": series.graph,
                "label": series.label,
                "unit": series.unit,
                "time": columns.add((series.time_ns - first_ns) / 1000, "f8"),
                "value": columns.add(np.nan_to_num(series.values), "f8"),
            }
            for series in process.series
        ],
        "heatmaps": [
            {
                "name": heatmap.name,
                "unit": heatmap.unit,
                "edges": list(heatmap.edges),
                "time": columns.add((heatmap.time_ns - first_ns) / 1000, "f8"),
                "counts": columns.add(heatmap.counts.reshape(-1), "i4"),
            }
            for heatmap in process.heatmaps
        ],
    }


def _read_part(name: str) -> str:
    return resources.files("openipu.report").joinpath("web_system", name).read_text(encoding="utf-8")
