"""Lets Keras and the user read and write variables whose newest values are on the device.

In: accesses to the variables of Keras. Out: a `Watcher` is told of each, before it happens, of variables that it asked
for. Keras keeps a variable's value in one attribute, so that one descriptor sees every way to it: `numpy()`,
`get_weights()`, `assign()`, checkpoints, `save()`.
"""

from __future__ import annotations

import contextlib
import contextvars
import weakref
from collections.abc import Iterator
from typing import Any, Protocol

from keras.src.backend.tensorflow.core import Variable

_WATCHER = "_ipu_watcher"
_paused = contextvars.ContextVar("paused", default=False)


class Watcher(Protocol):
    """Who has newer values of some variables."""

    def before_access(self, variable: Any) -> None: ...


class _WatchedValue:
    """`Variable._value`."""

    def __get__(self, variable: Any, kind: type | None = None) -> Any:
        if variable is None:
            return self
        held = variable.__dict__
        if _WATCHER in held and not _paused.get():
            held[_WATCHER].before_access(variable)
        try:
            return held["_value"]
        except KeyError:
            raise AttributeError("_value") from None

    def __set__(self, variable: Any, value: Any) -> None:
        variable.__dict__["_value"] = value
        if value is not None:
            value._ipu_owner = weakref.ref(variable)


def install_watching() -> None:
    """From now on variables can be watched; a second call changes nothing."""
    if not isinstance(Variable.__dict__.get("_value"), _WatchedValue):
        Variable._value = _WatchedValue()


def find_owner(held: Any) -> Any:
    """The variable of Keras that a variable of TensorFlow is the value of; else the latter itself."""
    owner = getattr(held, "_ipu_owner", lambda: None)()
    return held if owner is None else owner


def watch(variable: Any, watcher: Watcher) -> None:
    variable.__dict__[_WATCHER] = watcher


def unwatch(variable: Any) -> None:
    variable.__dict__.pop(_WATCHER, None)


@contextlib.contextmanager
def pause_watching() -> Iterator[None]:
    """A trace looks at variables and not at their values."""
    token = _paused.set(True)
    try:
        yield
    finally:
        _paused.reset(token)
