"""Trace points: a `with` block, a pair of calls, a moment, or every call of a function."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from types import TracebackType
from typing import Any, TypeVar

from libpvti._channels import TraceChannel
from openipu.trace import find_recorder, mark_moment, span

Function = TypeVar("Function", bound=Callable[..., Any])

_open = threading.local()  # begun by `Tracepoint.begin` and not ended yet: one stack a thread


class Tracepoint:
    """Marks what runs inside `with Tracepoint(channel, label):`."""

    __slots__ = ("_span",)

    def __init__(self, channel: TraceChannel, label: str) -> None:
        self._span = span(channel.name, label)

    def __enter__(self) -> Tracepoint:
        self._span.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._span.__exit__(kind, error, trace)

    @staticmethod
    def begin(channel: TraceChannel, label: str) -> None:
        """Begin a section that `end` with the same channel and label will end, in the same thread."""
        if find_recorder() is not None:
            _list_open().append((channel.name, label, perf_counter_ns()))

    @staticmethod
    def end(channel: TraceChannel, label: str) -> None:
        """End the section of this label that was begun last; one that was never begun is no error."""
        recorder, begun = find_recorder(), _list_open()
        for place in reversed(range(len(begun))):
            if begun[place][:2] == (channel.name, label):
                start_ns = begun.pop(place)[2]
                if recorder is not None and recorder.channels.find(channel.name).enabled:
                    recorder.add_event(channel.name, label, start_ns, perf_counter_ns() - start_ns)
                return

    @staticmethod
    def event(channel: TraceChannel, label: str) -> None:
        """Mark this moment."""
        mark_moment(channel.name, label)


def instrument_fn(channel: TraceChannel) -> Callable[[Function], Function]:
    """A decorator: every call of the function is marked with its name."""

    def decorate(function: Function) -> Function:
        return _mark(function, getattr(function, "__qualname__", "call"), channel)

    return decorate


def instrument(obj: Any, methods: Iterable[str], channel: TraceChannel) -> Any:
    """Mark every call of these methods of an object; returns the object."""
    for method in [methods] if isinstance(methods, str) else methods:
        setattr(obj, method, _mark(getattr(obj, method), f"{type(obj).__name__}.{method}", channel))
    return obj


def _mark(function: Function, label: str, channel: TraceChannel) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with span(channel.name, label):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _list_open() -> list[tuple[str, str, int]]:
    if not hasattr(_open, "stack"):
        _open.stack = []
    stack: list[tuple[str, str, int]] = _open.stack
    return stack
