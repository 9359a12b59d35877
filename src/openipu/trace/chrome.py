"""Reads traces of others: Chrome's trace events, the JSON that most tracers write.

In: the path of a `.json` file. Out: a `ProcessTrace` for each process in it. Complete events, pairs of begin and end,
moments and counters are read; what else such files may hold is left out. Times in them are microseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from openipu.errors import TraceError
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from openipu.files.plain import MIB
from openipu.files.values import Text, Whole
from openipu.trace.read import MOMENT, ProcessTrace, SeriesTrace, ThreadTrace

SUFFIX = ".json"
_LARGEST = 256 * MIB
_LATEST_US = (1 << 61) / 1000
_HINT = 'Give a file of Chrome trace events: {"traceEvents": [{"ph": "X", "name": ..., "ts": ..., "dur": ...}, ...]}.'


class _Event(msgspec.Struct, frozen=True, rename={"start": "ts"}):
    ph: str
    name: Text = ""
    cat: Text = ""
    pid: Whole | Text = 0
    tid: Whole | Text = 0
    start: float = 0.0
    dur: float = 0.0
    args: Any = None


class _Document(msgspec.Struct, frozen=True):
    events: list[_Event] = msgspec.field(name="traceEvents")


@dataclass
class _Thread:
    """What one thread did, in the order of the file."""

    name: str = ""
    rows: list[tuple[int, int, str, str, str | None]] = field(default_factory=list)
    opened: list[_Event] = field(default_factory=list)


def read_chrome_trace(path: Path) -> list[ProcessTrace]:
    """The processes of one file, in order of appearance."""
    origin = Origin(str(path), TraceError, _HINT)
    found: Any = read_json(path, _Document | list[_Event], origin, _LARGEST)  # type: ignore[arg-type]
    events = found if isinstance(found, list) else found.events
    names: dict[int | str, str] = {}
    threads: dict[int | str, dict[int | str, _Thread]] = defaultdict(lambda: defaultdict(_Thread))
    samples: dict[int | str, dict[tuple[str, str], list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        if not 0 <= event.start <= _LATEST_US or not 0 <= event.dur <= _LATEST_US:
            raise origin.fail(f"holds what it should not: {event.name[:80]!r} has a time out of bounds")
        if event.ph == "M":
            given = event.args.get("name") if isinstance(event.args, dict) else None
            if event.name == "process_name":
                names[event.pid] = str(given)[:1000]
            elif event.name == "thread_name":
                threads[event.pid][event.tid].name = str(given)[:1000]
        elif event.ph == "C":
            for label, value in (event.args if isinstance(event.args, dict) else {}).items():
                if isinstance(value, int | float):
                    samples[event.pid][event.name, str(label)].append((_to_ns(event.start), float(value)))
        else:
            _add_event(threads[event.pid][event.tid], event)
    if not any(own.rows for process in threads.values() for own in process.values()):
        raise origin.fail("has no event that lasts, nor a moment")
    return [
        ProcessTrace(
            path,
            pid if isinstance(pid, int) and pid >= 0 else number,
            names.get(pid, path.name),
            tuple(_make_threads(process)),
            tuple(_make_series(samples[pid])),
            (),
        )
        for number, (pid, process) in enumerate(threads.items())
        if any(own.rows for own in process.values())
    ]


def _add_event(thread: _Thread, event: _Event) -> None:
    if event.ph == "B":
        thread.opened.append(event)
    elif event.ph == "E" and thread.opened:
        begun = thread.opened.pop()
        thread.rows.append(_make_row(begun, max(0, _to_ns(event.start) - _to_ns(begun.start))))
    elif event.ph == "X":
        thread.rows.append(_make_row(event, _to_ns(event.dur)))
    elif event.ph in ("i", "I", "R"):
        thread.rows.append(_make_row(event, MOMENT))


def _make_row(event: _Event, duration: int) -> tuple[int, int, str, str, str | None]:
    details = msgspec.json.encode(event.args).decode() if isinstance(event.args, dict) and event.args else None
    return _to_ns(event.start), duration, event.cat or "events", event.name, details


def _make_threads(process: dict[int | str, _Thread]) -> Iterable[ThreadTrace]:
    for number, (tid, thread) in enumerate(process.items()):
        if not thread.rows:
            continue
        rows = sorted(thread.rows, key=lambda row: (row[0], -row[1]))
        names: dict[str, int] = {}
        numbers = [[names.setdefault(text, len(names)) for text in row[2:4]] for row in rows]
        places = np.array(numbers, dtype=np.int64).reshape(-1, 2)
        times = np.array([row[:2] for row in rows], dtype=np.int64).reshape(-1, 2)
        yield ThreadTrace(
            tid if isinstance(tid, int) else number,
            thread.name or f"thread {tid}"[:1000],
            tuple(names),
            places[:, 0].copy(),
            places[:, 1].copy(),
            times[:, 0].copy(),
            times[:, 1].copy(),
            tuple(row[4] for row in rows),
        )


def _make_series(samples: dict[tuple[str, str], list[tuple[int, float]]]) -> Iterable[SeriesTrace]:
    for (graph, label), own in samples.items():
        own.sort()
        times = np.array([time for time, _ in own], dtype=np.int64)
        yield SeriesTrace(graph, label, "", times, np.array([value for _, value in own], dtype=np.float64))


def _to_ns(microseconds: float) -> int:
    return round(microseconds * 1000)
