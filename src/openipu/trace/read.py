"""Reads `.pvti` files, and by `chrome` the JSON of other tracers.

In: the path of a file, or of a directory with those of one run. Out: a `HostTrace`, events in order of time with their
nesting. Whatever is wrong with a file is a `TraceError` that says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from openipu.errors import TraceError
from openipu.files.databases import Database, DatabaseFormat, open_database
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.values import Count, Finite, Text, Whole, convert
from openipu.trace.trace_file import APPLICATION_ID, SCHEMA_VERSION, SUFFIX, TABLES

Integers = npt.NDArray[np.int64]

MOMENT = -1  # the duration of an event that has none

_RECORD_AGAIN = (
    "Run the program again with this version of openipu to record another trace. A file of Graphcore's libpvti becomes "
    "readable by examples/export_pvti.py, run where its SDK is."
)
_FORMAT = DatabaseFormat(
    "trace", APPLICATION_ID, SCHEMA_VERSION, TABLES, growing=True, largest=4 << 30, most_rows=20_000_000
)
_Time = Annotated[int, msgspec.Meta(ge=0, le=1 << 61)]
_Duration = Annotated[int, msgspec.Meta(ge=MOMENT, le=1 << 61)]
_EventRow = tuple[Whole, Count, Count, _Time, _Duration, Text | None]
_Histogram = list[Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]]


class _Meta(msgspec.Struct, frozen=True):
    pid: Count
    command: str


@dataclass(frozen=True, eq=False)
class ThreadTrace:
    """The events of one thread, in order of their begin; one entry per event in each column."""

    tid: int
    name: str
    names: Sequence[str]
    channel: Integers  # numbers of names
    label: Integers
    start_ns: Integers  # since 1970
    duration_ns: Integers
    details: tuple[str | None, ...]  # JSON

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def parents(self) -> Integers:
        """For each event the one around it, or -1."""
        return _nest(self.start_ns.tolist(), self.duration_ns.tolist())

    @cached_property
    def depths(self) -> Integers:
        depths = np.zeros(len(self), dtype=np.int64)
        for place, parent in enumerate(self.parents.tolist()):
            if parent >= 0:
                depths[place] = depths[parent] + 1
        return depths

    @cached_property
    def self_ns(self) -> Integers:
        """What each event took without those inside it."""
        own = np.maximum(self.duration_ns, 0)
        inside = self.parents >= 0
        np.subtract.at(own, self.parents[inside], np.maximum(self.duration_ns, 0)[inside])
        return np.maximum(own, 0)


@dataclass(frozen=True, eq=False)
class SeriesTrace:
    """One line of a graph."""

    graph: str
    label: str
    unit: str
    time_ns: Integers
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeatmapTrace:
    """Histograms over time: counts between each two edges."""

    name: str
    unit: str
    edges: tuple[float, ...]
    time_ns: Integers
    counts: Integers  # time x bin


@dataclass(frozen=True, eq=False)
class ProcessTrace:
    """What one process recorded."""

    path: Path
    pid: int
    command: str
    threads: tuple[ThreadTrace, ...]
    series: tuple[SeriesTrace, ...]
    heatmaps: tuple[HeatmapTrace, ...]


@dataclass(frozen=True, eq=False)
class HostTrace:
    """The processes of one run, on one axis of time."""

    processes: tuple[ProcessTrace, ...]

    @cached_property
    def first_ns(self) -> int:
        return min((int(thread.start_ns[0]) for thread in self.list_threads()), default=0)

    @cached_property
    def last_ns(self) -> int:
        ends = (int((thread.start_ns + np.maximum(thread.duration_ns, 0)).max()) for thread in self.list_threads())
        return max(ends, default=0)

    @property
    def event_count(self) -> int:
        return sum(len(thread) for thread in self.list_threads())

    def list_threads(self) -> list[ThreadTrace]:
        return [thread for process in self.processes for thread in process.threads]


def read_trace(*paths: Path) -> HostTrace:
    """The trace of files, and of all files in directories."""
    files: list[Path] = []
    for path in map(Path, paths):
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found or not all(file.exists() for file in found):
            raise TraceError(
                f"There is no trace at {path}. Give a {SUFFIX} file or a directory that holds some; a run writes them "
                'with PVTI_OPTIONS=\'{"enable":"true"}\' or `openipu run --trace DIR`.'
            )
        files += found
    # A process has a higher number than the one that started it, as a rule.
    processes = [process for file in dict.fromkeys(files) for process in _read_file(file)]
    return HostTrace(tuple(sorted(processes, key=lambda process: process.pid)))


def _read_file(path: Path) -> list[ProcessTrace]:
    if path.suffix == ".json":
        from openipu.trace.chrome import read_chrome_trace  # which needs the types of this module

        return read_chrome_trace(path)
    return [_read_process(path)]


def _read_process(path: Path) -> ProcessTrace:
    origin = Origin(str(path), TraceError, _RECORD_AGAIN)
    with open_database(path, _FORMAT, origin) as database:
        meta = convert(dict(database.read("SELECT key, value FROM meta", tuple[str, Any])), _Meta, origin)
        return ProcessTrace(
            path,
            meta.pid,
            meta.command,
            tuple(_read_threads(database, origin)),
            tuple(_read_series(database)),
            tuple(_read_heatmaps(database, origin)),
        )


def _read_threads(database: Database, origin: Origin) -> list[ThreadTrace]:
    names = tuple(name for (name,) in database.read("SELECT name FROM names ORDER BY id", tuple[Text]))
    threads = []
    # The longer of two that begin together is the outer one, else that which was written, so ended, last.
    rows = database.read(
        f"SELECT tid, channel, label, start_ns, coalesce(duration_ns, {MOMENT}), details_json FROM events "
        "ORDER BY tid, start_ns, coalesce(duration_ns, 0) DESC, rowid DESC",
        _EventRow,
    )
    numbers = np.array([row[:5] for row in rows], dtype=np.int64).reshape(-1, 5)
    if len(numbers) and numbers[:, 1:3].max() >= len(names):
        raise origin.fail("is damaged: an event has a name that is not in the file")
    details = tuple(row[5] for row in rows)
    for text in filter(None, details):
        parse_json(text, Any, origin.within("details of an event"))
    for tid, name in database.read("SELECT tid, name FROM threads ORDER BY rowid", tuple[Whole, Text]):
        first, last = np.searchsorted(numbers[:, 0], [tid, tid + 1]).tolist()
        if first < last:
            channel, label, start_ns, duration_ns = (numbers[first:last, place].copy() for place in range(1, 5))
            own = details[first:last]
            threads.append(ThreadTrace(tid, name, names, channel, label, start_ns, duration_ns, own))
    return threads


def _read_series(database: Database) -> list[SeriesTrace]:
    samples: dict[int, list[tuple[int, float | None]]] = {}
    for key, *sample in database.read(
        "SELECT series, time_ns, value FROM samples ORDER BY time_ns", tuple[Whole, _Time, float | None]
    ):
        samples.setdefault(key, []).append(tuple(sample))
    found = []
    for key, graph, label, unit in database.read("SELECT * FROM series ORDER BY id", tuple[Whole, Text, Text, Text]):
        own = samples.get(key, [])
        times = np.array([time for time, _ in own], dtype=np.int64)
        found.append(SeriesTrace(graph, label, unit, times, np.array([value for _, value in own], dtype=np.float64)))
    return found


def _read_heatmaps(database: Database, origin: Origin) -> list[HeatmapTrace]:
    columns: dict[int, list[tuple[int, str]]] = {}
    for key, *column in database.read(
        "SELECT heatmap, time_ns, counts_json FROM histograms ORDER BY time_ns", tuple[Whole, _Time, Text]
    ):
        columns.setdefault(key, []).append(tuple(column))
    place = origin.within("table heatmaps")
    found = []
    for key, name, unit, text in database.read("SELECT * FROM heatmaps ORDER BY id", tuple[Whole, Text, Text, Text]):
        edges, own = parse_json(text, list[Finite], place), columns.get(key, [])
        counts = [parse_json(text, _Histogram, place) for _, text in own]
        if any(len(histogram) != len(edges) - 1 for histogram in counts):
            raise place.fail("is damaged: a histogram has not as many entries as the edges say")
        times = np.array([time for time, _ in own], dtype=np.int64)
        table = np.array(counts, dtype=np.int64).reshape(len(own), max(0, len(edges) - 1))
        found.append(HeatmapTrace(name, unit, tuple(edges), times, table))
    return found


def _nest(starts: list[int], durations: list[int]) -> Integers:
    parents = np.full(len(starts), -1, dtype=np.int64)
    around: list[int] = []
    for place, (start, duration) in enumerate(zip(starts, durations, strict=True)):
        end = start + max(0, duration)
        # An event belongs to the innermost one that covers it whole; those that merely overlap stand beside it.
        while around and starts[around[-1]] + durations[around[-1]] < end:
            around.pop()
        if around:
            parents[place] = around[-1]
        if duration != MOMENT:
            around.append(place)
    return parents


def describe_details(text: str | None) -> dict[str, Any]:
    """The details of one event, which were looked at when the file was read."""
    found = msgspec.json.decode(text) if text else {}
    return found if isinstance(found, dict) else {"value": found}
