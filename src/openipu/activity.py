"""What programs of this process are doing, told as it happens to those who watch: a live page, a trainer's callback.

In: compilations and calls, from `session` and `run`. Out: calls of every watcher, in the thread that did the work.
Nobody watches by default, and then a call of a program pays one comparison. Free of torch.
"""

from __future__ import annotations

import itertools
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_numbers = itertools.count(1)
_changing = threading.Lock()


@dataclass(frozen=True, slots=True)
class ProgramFigures:
    """What the plan says of a program that was compiled. Everything here is modelled but the seconds of compiling."""

    name: str
    system: str
    ipus: int  # of all replicas
    replicas: int
    fits: bool
    needed_bytes: int  # of all tiles, each at its own worst step
    peak_bytes: int  # of the fullest tile
    limit_bytes: int
    call_cycles: float
    clock_hz: float
    samples_per_call: int
    compile_seconds: float  # on this host
    profile_directory: Path | None  # where its profile lies, if one was written

    @property
    def call_seconds(self) -> float:
        return self.call_cycles / self.clock_hz

    @property
    def samples_per_second(self) -> float:
        return self.samples_per_call / self.call_seconds if self.call_cycles else 0.0


class Watcher:
    """Who wants to know. Methods do nothing here; they are called in the user's thread, and must be quick."""

    def advance(self, compilation: int, title: str, percent: int) -> None:
        """A program is being compiled."""

    def finish(self, compilation: int, executable: int, figures: ProgramFigures) -> None:
        """It can run. `executable` is the number that its calls have."""

    def fail(self, compilation: int, title: str, error: str) -> None:
        """It cannot be compiled."""

    def note_run(self, executable: int, name: str, seconds: float) -> None:
        """A call has ended, after so many seconds on this host."""


_watchers: tuple[Watcher, ...] = ()


def take_number() -> int:
    """A number that nothing else in this process has."""
    return next(_numbers)


def add_watcher(watcher: Watcher) -> None:
    global _watchers
    with _changing:
        _watchers = (*_watchers, watcher)


def remove_watcher(watcher: Watcher) -> None:
    """Once removed, or never added, is the same."""
    global _watchers
    with _changing:
        _watchers = tuple(one for one in _watchers if one is not watcher)


def is_watched() -> bool:
    return bool(_watchers)


def note_run(executable: int, name: str, seconds: float) -> None:
    """Tell that a call has ended."""
    for watcher in _watchers:
        watcher.note_run(executable, name, seconds)


class Compilation:
    """One compilation, from `with` to its end. An error that ends it is told, and goes on."""

    __slots__ = ("_number", "_title")

    def __init__(self, title: str) -> None:
        self._number, self._title = take_number(), title

    def __enter__(self) -> Compilation:
        self.advance(0)
        return self

    def advance(self, percent: int) -> None:
        for watcher in _watchers:
            watcher.advance(self._number, self._title, percent)

    def finish(self, executable: int, figures: ProgramFigures) -> None:
        for watcher in _watchers:
            watcher.finish(self._number, executable, figures)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for watcher in _watchers:
                watcher.fail(self._number, self._title, f"{kind.__name__}: {error}")


def _forget_watchers() -> None:
    """A forked process has none: threads and connections of those who watch stayed with its parent."""
    global _watchers, _changing
    _watchers, _changing = (), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_watchers)
