"""What the live page shows: every program of the script, as far as it has come.

In: the calls of a `Watcher`, from any thread. Out: the state as plain values for JSON, with a number that rises with
each change. A script that compiles all day does not grow: the oldest programs go.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openipu.activity import ProgramFigures, Watcher

LONGEST_LIST = 100  # programs
LAST_CALLS = 60  # of each program, for the line of its calls
LONGEST_TEXT = 2_000  # characters of a title or an error


@dataclass(eq=False)
class _Entry:
    """One program."""

    number: int
    title: str
    state: str = "compiling"  # then "ready" or "failed"
    percent: int = 0
    error: str = ""
    figures: ProgramFigures | None = None
    calls: int = 0
    seconds: float = 0.0  # of all its calls
    last_call: float | None = None  # when it ended
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_CALLS))  # seconds of each


class Board(Watcher):
    """Collects; `wait` sleeps until there is something new."""

    def __init__(self, script: str, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._entries: dict[int, _Entry] = {}  # by compilation, or by executable where nothing told of compiling
        self._by_executable: dict[int, _Entry] = {}
        self._script = _cut(script)
        self._started = clock()
        self._ended: dict[str, Any] | None = None
        self._version = 0

    # -- what happens ----------------------------------------------------------------------------------------------

    def advance(self, compilation: int, title: str, percent: int) -> None:
        with self._changed:
            entry = self._find(compilation, title)
            entry.percent = max(entry.percent, min(100, int(percent)))
            self._tell()

    def finish(self, compilation: int, executable: int, figures: ProgramFigures) -> None:
        with self._changed:
            entry = self._find(compilation, figures.name)
            entry.title, entry.state, entry.figures, entry.percent = _cut(figures.name), "ready", figures, 100
            self._by_executable[executable] = entry
            self._tell()

    def fail(self, compilation: int, title: str, error: str) -> None:
        with self._changed:
            entry = self._find(compilation, title)
            entry.state, entry.error = "failed", _cut(error)
            self._tell()

    def note_run(self, executable: int, name: str, seconds: float) -> None:
        with self._changed:
            entry = self._by_executable.get(executable)
            if entry is None:  # a Poplar program: placed by hand, planned when its profile is asked for
                entry = self._by_executable[executable] = self._find(executable, name)
                entry.state = "ready"
            entry.calls += 1
            entry.seconds += seconds
            entry.recent.append(seconds)
            entry.last_call = self._clock()
            self._tell()

    def end(self, code: int | None) -> None:
        """The script is over, with this exit code; None where a signal ends it."""
        with self._changed:
            if self._ended is None:
                self._ended = {"code": code, "at": self._clock()}
                self._tell()

    def _find(self, number: int, title: str) -> _Entry:
        entry = self._entries.get(number)
        if entry is None:
            entry = self._entries[number] = _Entry(number, _cut(title))
            while len(self._entries) > LONGEST_LIST:
                gone = self._entries.pop(next(iter(self._entries)))
                self._by_executable = {key: one for key, one in self._by_executable.items() if one is not gone}
        return entry

    def _tell(self) -> None:
        self._version += 1
        self._changed.notify_all()

    # -- who looks -------------------------------------------------------------------------------------------------

    def wait(self, version: int, seconds: float) -> int:
        """Sleep until the state is newer than this version, or so long; the version now."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, seconds)
            return self._version

    @property
    def is_over(self) -> bool:
        return self._ended is not None

    def describe(self) -> dict[str, Any]:
        """The whole state."""
        with self._changed:
            return {
                "version": self._version,
                "script": self._script,
                "started": self._started,
                "now": self._clock(),
                "ended": self._ended,
                "programs": [_describe(entry) for entry in self._entries.values()],
            }

    def find_profile(self, number: int) -> Path | None:
        """Where the profile of a program lies, if one was written."""
        with self._changed:
            entry = self._entries.get(number)
            return None if entry is None or entry.figures is None else entry.figures.profile_directory


def _describe(entry: _Entry) -> dict[str, Any]:
    figures = entry.figures
    modelled = None
    if figures is not None:
        modelled = {
            "system": figures.system,
            "ipus": figures.ipus,
            "fits": figures.fits,
            "peak_bytes": figures.peak_bytes,
            "limit_bytes": figures.limit_bytes,
            "call_cycles": figures.call_cycles,
            "call_seconds": figures.call_seconds,
            "samples_per_call": figures.samples_per_call,
            "samples_per_second": figures.samples_per_second,
        }
    return {
        "number": entry.number,
        "title": entry.title,
        "state": entry.state,
        "percent": entry.percent,
        "error": entry.error,
        "compile_seconds": None if figures is None else figures.compile_seconds,
        "has_report": figures is not None and figures.profile_directory is not None,
        "modelled": modelled,
        "calls": entry.calls,
        "seconds": entry.seconds,
        "last_call": entry.last_call,
        "recent": list(entry.recent),
    }


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
