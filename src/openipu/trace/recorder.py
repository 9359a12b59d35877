"""Records what this process does, and when.

In: events of any thread. Out: rows in the process's trace file, written about once a second and at the end.

Clocks: `perf_counter_ns` is what events are measured with; the file holds it as nanoseconds since 1970, so that the
files of several processes lie on one axis.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.util import Finalize
from time import perf_counter_ns
from typing import Any

from openipu.errors import OptionError, TraceError
from openipu.files.documents import dump_json
from openipu.trace.channels import Channels
from openipu.trace.options import TraceOptions
from openipu.trace.trace_file import TraceFile

_FLUSH_NS = 250_000_000  # a process that is killed loses no more than this
_FLUSH_ROWS = 20_000

_logger = logging.getLogger("openipu")


class Recorder:
    """One for each process that is traced. The file is made with the first event."""

    def __init__(self, options: TraceOptions) -> None:
        self.options = options
        _check_directory(options)
        self.channels = Channels(options.channels)
        self._inherited: list[TraceFile] = []  # of the parent process: SQLite forbids even to close them here
        self._file: TraceFile | None = None
        self._epoch_ns = time.time_ns() - perf_counter_ns()
        self._begin()
        os.register_at_fork(after_in_child=self._begin_forked)

    def _begin_forked(self) -> None:
        if self._file is not None:
            self._inherited.append(self._file)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._file = None
        self._broken = False
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._names: dict[str, int] = {}
        self._threads: set[int] = set()
        self._series: dict[tuple[str, str, str], int] = {}
        self._heatmaps: dict[tuple[str, str, tuple[float, ...]], int] = {}
        self._waiting = 0
        self._next_flush_ns = perf_counter_ns() + _FLUSH_NS
        seconds = self.options.duration_seconds
        self._last_ns = perf_counter_ns() + int(seconds * 1e9) if seconds else None

    @property
    def file_name(self) -> str | None:
        """The path of this process's file; None before its first event."""
        return None if self._file is None else str(self._file.path)

    def add_event(
        self, channel: str, label: str, start_ns: int, duration_ns: int | None, details: Mapping[str, Any] | None = None
    ) -> None:
        """Add what has ended, or a moment if it has no duration. Times are of `perf_counter_ns`."""
        if self._last_ns is not None and start_ns > self._last_ns:
            return
        thread = threading.get_native_id()
        with self._lock:
            if thread not in self._threads:
                self._threads.add(thread)
                self._add("threads", (thread, threading.current_thread().name))
            numbers = self._number(channel), self._number(label)
            text = dump_json(details) if details else None
            self._add("events", (thread, *numbers, start_ns + self._epoch_ns, duration_ns, text))
            self._flush_if_due()

    def add_sample(self, graph: str, label: str, unit: str, value: float) -> None:
        """A point of a line graph, now."""
        now = perf_counter_ns()
        if self._last_ns is not None and now > self._last_ns:
            return
        with self._lock:
            key = (graph, label, unit)
            if key not in self._series:
                self._series[key] = len(self._series)
                self._add("series", (self._series[key], *key))
            self._add("samples", (self._series[key], now + self._epoch_ns, value))
            self._flush_if_due()

    def add_histogram(self, name: str, edges: Sequence[float], unit: str, counts: Sequence[int]) -> None:
        """A column of a heatmap, now: how many values lie between each two edges."""
        now = perf_counter_ns()
        if self._last_ns is not None and now > self._last_ns:
            return
        with self._lock:
            key = (name, unit, tuple(edges))
            if key not in self._heatmaps:
                self._heatmaps[key] = len(self._heatmaps)
                self._add("heatmaps", (self._heatmaps[key], name, unit, dump_json(list(edges))))
            self._add("histograms", (self._heatmaps[key], now + self._epoch_ns, dump_json(list(counts))))
            self._flush_if_due()

    def flush(self) -> None:
        """Write what is waiting."""
        with self._lock:
            self._next_flush_ns = perf_counter_ns() + _FLUSH_NS
            if not self._waiting:
                return
            rows, self._rows, self._waiting = self._rows, {}, 0
            if self._broken:
                return
            try:
                if self._file is None:
                    self._file = TraceFile(self.options.directory)
                    # Processes of multiprocessing end without `atexit`.
                    Finalize(None, self.flush, exitpriority=100)
                self._file.insert(rows)
            except (TraceError, sqlite3.Error) as error:  # the user's run is worth more than its trace
                self._broken = True
                _logger.warning("Tracing ends here; the run goes on. %s", error)

    def close(self) -> None:
        """Write the rest and close the file; a later event begins another one."""
        with self._lock:
            self.flush()
            if self._file is not None:
                self._file.close()
            self._begin()

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        self._rows.setdefault(table, []).append(row)
        self._waiting += 1

    def _number(self, name: str) -> int:
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = len(self._names)
            self._add("names", (number, name))
        return number

    def _flush_if_due(self) -> None:
        if self._file is None or self._waiting > _FLUSH_ROWS or perf_counter_ns() > self._next_flush_ns:
            self.flush()


def _check_directory(options: TraceOptions) -> None:
    try:
        options.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"PVTI_OPTIONS: the directory {options.directory} cannot be made ({error.strerror}). Name another one."
        ) from error
