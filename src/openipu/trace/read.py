"""Reads `.pvti` files.

In: the path of a file, or of a directory with those of one run. Out: a `HostTrace`, events in order of time with their
nesting. Whatever is wrong with a file is a `TraceError` that says what to do.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from openipu.errors import TraceError
from openipu.trace.trace_file import APPLICATION_ID, SCHEMA_VERSION, SUFFIX

Integers = npt.NDArray[np.int64]

MOMENT = -1  # the duration of an event that has none


@dataclass(frozen=True, eq=False)
class ThreadTrace:
    """The events of one thread, in order of their begin; one entry an event in each column."""

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
        if not found or not all(file.is_file() for file in found):
            raise TraceError(
                f"There is no trace at {path}. Give a {SUFFIX} file or a directory that holds some; a run writes them "
                'with PVTI_OPTIONS=\'{"enable":"true"}\' or `openipu run --trace DIR`.'
            )
        files += found
    # A process has a higher number than the one that started it, as a rule.
    return HostTrace(tuple(sorted(map(_read_process, dict.fromkeys(files)), key=lambda process: process.pid)))


def _read_process(path: Path) -> ProcessTrace:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as connection:
            _check_header(connection, path)
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            return ProcessTrace(
                path,
                int(meta["pid"]),
                str(meta["command"]),
                tuple(_read_threads(connection)),
                tuple(_read_series(connection)),
                tuple(_read_heatmaps(connection)),
            )
    except (sqlite3.Error, ValueError, KeyError, TypeError, IndexError) as error:
        raise TraceError(f"{path} is damaged, or is no trace: {error}. Run the program again to record one.") from error


def _check_header(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise TraceError(f"{path} is a database, but no trace of openipu. Run the program again to record one.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise TraceError(
            f"{path} has version {version} of the trace format; this openipu reads version {SCHEMA_VERSION}. Record "
            "the run again with this version."
        )
    finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise TraceError(f"{path} is damaged: {finding}. Run the program again to record another trace.")


def _read_threads(connection: sqlite3.Connection) -> list[ThreadTrace]:
    names = tuple(name for (name,) in connection.execute("SELECT name FROM names ORDER BY id"))
    threads = []
    for tid, name in connection.execute("SELECT tid, name FROM threads ORDER BY rowid").fetchall():
        # The longer of two that begin together is the outer one, else that which was written, so ended, last.
        rows = connection.execute(
            f"SELECT channel, label, start_ns, coalesce(duration_ns, {MOMENT}), details_json FROM events WHERE tid = ? "
            "ORDER BY start_ns, coalesce(duration_ns, 0) DESC, rowid DESC",
            (tid,),
        ).fetchall()
        numbers = np.array([row[:4] for row in rows], dtype=np.int64).reshape(-1, 4)
        if len(numbers) and numbers[:, :2].max() >= len(names):
            raise ValueError("an event has a name that is not in the file")
        details = tuple(row[4] for row in rows)
        if rows:
            channel, label, start_ns, duration_ns = (numbers[:, place].copy() for place in range(4))
            threads.append(ThreadTrace(tid, name, names, channel, label, start_ns, duration_ns, details))
    return threads


def _read_series(connection: sqlite3.Connection) -> list[SeriesTrace]:
    found = []
    for key, graph, label, unit in connection.execute("SELECT * FROM series ORDER BY id").fetchall():
        rows = connection.execute("SELECT time_ns, value FROM samples WHERE series = ? ORDER BY time_ns", (key,))
        times, values = zip(*rows.fetchall(), strict=True)
        found.append(SeriesTrace(graph, label, unit, np.array(times), np.array(values, dtype=np.float64)))
    return found


def _read_heatmaps(connection: sqlite3.Connection) -> list[HeatmapTrace]:
    found = []
    for key, name, unit, edges in connection.execute("SELECT * FROM heatmaps ORDER BY id").fetchall():
        query = "SELECT time_ns, counts_json FROM histograms WHERE heatmap = ? ORDER BY time_ns"
        rows: list[tuple[int, str]] = connection.execute(query, (key,)).fetchall()
        counts = np.array([json.loads(text) for _, text in rows], dtype=np.int64)
        found.append(HeatmapTrace(name, unit, tuple(json.loads(edges)), np.array([time for time, _ in rows]), counts))
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
    """The details of one event."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {"value": found}
