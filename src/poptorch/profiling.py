"""Trace points of the user's own: `Channel("loader").tracepoint("read")`.

They name sections for the vendor's trace viewer, which needs its own library. Without it they cost nothing and record
nothing; with the log level TRACE, each section's host time is logged.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from poptorch._logging import TRACE, logger


class Channel:
    """A group of trace points with a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @contextmanager
    def tracepoint(self, name: str) -> Iterator[None]:
        """Mark what runs inside the block."""
        if not logger.isEnabledFor(TRACE):
            yield
            return
        started = time.perf_counter()
        try:
            yield
        finally:
            logger.log(TRACE, "%s: %s took %.6f s", self._name, name, time.perf_counter() - started)

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Mark every call of these methods of an object; returns the object."""
        for method in methods:
            setattr(obj, method, self._mark(getattr(obj, method), method))
        return obj

    def _mark(self, function: Any, name: str) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.tracepoint(name):
                return function(*args, **kwargs)

        return call
