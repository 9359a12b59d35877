"""The file of a trace: an SQLite database with the ending `.pvti`, one a process.

In: rows of events. Out: a file that readers may open at any moment; what was written stays when the process is killed.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openipu.errors import TraceError

SUFFIX = ".pvti"
APPLICATION_ID = 0x6F697074  # "oipt"
SCHEMA_VERSION = 1

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value);
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE threads(tid INTEGER PRIMARY KEY, name TEXT NOT NULL);
-- Times are nanoseconds since 1970. An event without an end is a moment.
CREATE TABLE events(tid INTEGER NOT NULL, channel INTEGER NOT NULL, label INTEGER NOT NULL, start_ns INTEGER NOT NULL,
  duration_ns INTEGER, details_json TEXT);
CREATE TABLE series(id INTEGER PRIMARY KEY, graph TEXT NOT NULL, label TEXT NOT NULL, unit TEXT NOT NULL);
CREATE TABLE samples(series INTEGER NOT NULL, time_ns INTEGER NOT NULL, value REAL);
CREATE TABLE heatmaps(id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL, edges_json TEXT NOT NULL);
CREATE TABLE histograms(heatmap INTEGER NOT NULL, time_ns INTEGER NOT NULL, counts_json TEXT NOT NULL);
"""


class TraceFile:
    """The writer's side of one file."""

    def __init__(self, directory: Path) -> None:
        self._pid = os.getpid()
        self.path = _choose_path(directory, self._pid)
        try:
            # Threads take turns under the recorder's lock. Every statement is a transaction unless one is begun.
            self._connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
            self._connection.executescript(
                f"PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {SCHEMA_VERSION}; BEGIN; {TABLES} COMMIT;"
            )
            about = {"pid": self._pid, "command": _describe_command(), "started_ns": time.time_ns()}
            self.insert({"meta": about.items()})
        except (OSError, sqlite3.Error) as error:
            raise TraceError(
                f"Cannot write the trace {self.path}: {error}. Check the rights and the free space of {directory}, or "
                "name another directory in PVTI_OPTIONS."
            ) from error

    def insert(self, rows: Mapping[str, Iterable[tuple[Any, ...]]]) -> None:
        """Add rows to tables, all or none."""
        self._connection.execute("BEGIN")
        try:
            for table, entries in rows.items():
                listed = list(entries)
                if listed:
                    marks = ", ".join("?" * len(listed[0]))
                    self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", listed)
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _choose_path(directory: Path, pid: int) -> Path:
    """Named by time and process, as files of one run sort together."""
    name = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{pid}"
    path, number = directory / f"{name}{SUFFIX}", 1
    while path.exists():
        number += 1
        path = directory / f"{name}-{number}{SUFFIX}"
    return path


def _describe_command() -> str:
    return " ".join(sys.argv) or "python"
