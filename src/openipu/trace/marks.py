"""How the rest of openipu marks what it does.

In: a channel, a label and, where that helps, a few details. Out: an event of the process's recorder if there is one.
While tracing is off, `span` answers with one shared object that does nothing.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter_ns
from types import TracebackType
from typing import Any, TypeVar

from openipu.trace.options import TraceOptions, read_environment
from openipu.trace.recorder import Recorder

Item = TypeVar("Item")

_recorder: Recorder | None = None


class _Nothing:
    """A span while tracing is off."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *details: object) -> None:
        return None


class _Span:
    """One piece of work, from `with` to its end. An error that ends it is named in the details."""

    __slots__ = ("_channel", "_details", "_label", "_recorder", "_start_ns")

    def __init__(self, recorder: Recorder, channel: str, label: str, details: Mapping[str, Any] | None) -> None:
        self._recorder, self._channel, self._label, self._details = recorder, channel, label, details
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        details = self._details
        if kind is not None:
            details = {**(details or {}), "error": kind.__name__}
        duration_ns = perf_counter_ns() - self._start_ns
        self._recorder.add_event(self._channel, self._label, self._start_ns, duration_ns, details)


_NOTHING = _Nothing()


def span(channel: str, label: str, details: Mapping[str, Any] | None = None) -> _Span | _Nothing:
    """Mark what runs inside `with`."""
    recorder = _recorder
    if recorder is None or not recorder.channels.find(channel).enabled:
        return _NOTHING
    return _Span(recorder, channel, label, details)


def mark_moment(channel: str, label: str, details: Mapping[str, Any] | None = None) -> None:
    """Mark this very moment."""
    if _recorder is not None and _recorder.channels.find(channel).enabled:
        _recorder.add_event(channel, label, perf_counter_ns(), None, details)


def mark_past(
    channel: str, label: str, start_seconds: float, end_seconds: float, details: Mapping[str, Any] | None = None
) -> None:
    """Mark work whose begin and end, of `time.perf_counter`, were noted by somebody else."""
    if _recorder is not None and _recorder.channels.find(channel).enabled:
        start_ns = int(start_seconds * 1e9)
        _recorder.add_event(channel, label, start_ns, max(0, int(end_seconds * 1e9) - start_ns), details)


def trace_iterator(items: Iterable[Item], channel: str, label: str) -> Iterator[Item]:
    """The same items, each with a mark on the time that it took to come. Give this only while tracing is on."""
    iterator = iter(items)
    while True:
        with span(channel, label):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


def is_tracing() -> bool:
    return _recorder is not None


def find_recorder() -> Recorder | None:
    """The recorder of this process; None while tracing is off."""
    return _recorder


def start_tracing(options: TraceOptions | None = None) -> None:
    """Begin to record, if the options or else `PVTI_OPTIONS` ask for it. A second call changes nothing."""
    global _recorder
    if _recorder is not None:
        return
    options = read_environment() if options is None else options
    if options.enabled:
        _recorder = Recorder(options)
        atexit.register(_flush)


def stop_tracing() -> None:
    """End recording and complete the file."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        recorder.close()


def _flush() -> None:
    if _recorder is not None:
        _recorder.flush()
