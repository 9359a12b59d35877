"""Streams that a session's user has connected to functions of their own.

In: `h2d_<input>` and `d2h_<anchor>` with a function for a replica, and a step's data. Out: the same step, in which
these functions fill the micro-batches of an input, or get those of an anchor, instead of the step's arrays. A function
gets the address of one micro-batch as the capsule that PopART hands over; it is valid for that call alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from popart._exceptions import popart_exception
from popart._stepio import IStepIO

INPUT, OUTPUT = "h2d_", "d2h_"
Array = np.ndarray[Any, Any]
Callback = Callable[[Any], object]

_make_capsule = ctypes.pythonapi.PyCapsule_New
_make_capsule.restype = ctypes.py_object
_make_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Streams:
    """Functions by stream and replica."""

    def __init__(self) -> None:
        self._callbacks: dict[str, dict[int, Callback]] = {}

    def connect(self, handle: str, callback: Callback, replica: int, known: Collection[str], replicas: int) -> None:
        """From the next run on. `known`: the streams of the session."""
        if handle not in known:
            raise popart_exception(
                f"There is no stream {handle!r}. Streams are {', '.join(sorted(known))}; those of C++ custom "
                "ops are not there: an op registered in Python reads what it wants by itself."
            )
        if not callable(callback):
            raise TypeError(f"A stream is connected to a function, not to {type(callback).__name__}.")
        if not 0 <= replica < replicas:
            raise popart_exception(f"There is no replica {replica}: the session has {replicas}.")
        self._callbacks.setdefault(handle, {})[replica] = callback

    def around(self, stepio: IStepIO, replicas: int, shared: Collection[str]) -> IStepIO:
        """A step's data, as the functions change it. `shared`: inputs that all replicas get the same of."""
        return _ConnectedStepIO(stepio, self._callbacks, replicas, shared) if self._callbacks else stepio


class _ConnectedStepIO(IStepIO):
    def __init__(
        self,
        inner: IStepIO,
        callbacks: Mapping[str, Mapping[int, Callback]],
        replicas: int,
        shared: Collection[str],
    ) -> None:
        self._inner, self._callbacks, self._replicas, self._shared = inner, callbacks, replicas, shared

    def _check(self, inputs: Mapping[str, int], outputs: Mapping[str, int], known: Sequence[str]) -> None:
        self._inner._check(inputs, outputs, known)

    def _take(self, name: str, shape: Sequence[int], count: int, dtype: np.dtype[Any]) -> Array:
        found = self._callbacks.get(INPUT + name, {})
        if not found:
            return self._inner._take(name, shape, count, dtype)
        replicas = 1 if name in self._shared else self._replicas
        size = int(np.prod(shape, dtype=np.int64))
        filled = np.zeros((count, size), dtype)
        if len(found) < replicas:
            filled[...] = np.asarray(self._inner._take(name, shape, count, dtype)).reshape(count, size)
        for position, part in enumerate(filled):
            callback = found.get(position % replicas)
            if callback is not None:
                callback(_point_to(part))
        return filled.reshape(-1)

    def _wants(self, name: str) -> bool:
        return OUTPUT + name in self._callbacks or self._inner._wants(name)

    def _put(self, name: str, value: Array) -> None:
        found = self._callbacks.get(OUTPUT + name, {})
        for position, part in enumerate(value):
            callback = found.get(position % self._replicas)
            if callback is not None:
                callback(_point_to(np.array(part, order="C")))
        if len(found) < self._replicas and self._inner._wants(name):
            self._inner._put(name, value)


def _point_to(part: Array) -> Any:
    return _make_capsule(part.ctypes.data, None, None)
