"""Trace points of the user's own: `Channel("loader").tracepoint("read")`.

In: names of sections. Out: events in the trace of the host, if `PVTI_OPTIONS` asks for one; with the log level TRACE,
each section's time is logged too. Otherwise a section costs next to nothing.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from openipu.trace import span
from poptorch._logging import TRACE, logger

__all__ = ["Channel"]


class Channel:
    """A group of trace points with a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def tracepoint(self, name: str) -> AbstractContextManager[None]:
        """Mark what runs inside the block."""
        if logger.isEnabledFor(TRACE):
            return self._log_time(name)
        return span(self._name, f"{self._name}.{name}")

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Mark every call of these methods of an object; returns the object."""
        for method in methods:
            setattr(obj, method, self._mark(getattr(obj, method), method))
        return obj

    @contextmanager
    def _log_time(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            with span(self._name, f"{self._name}.{name}"):
                yield
        finally:
            logger.log(TRACE, "%s: %s took %.6f s", self._name, name, time.perf_counter() - started)

    def _mark(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.tracepoint(name):
                return function(*args, **kwargs)

        return call
