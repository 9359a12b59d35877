"""Gradients of activations, captured while gradients of variables are made.

In: tensors that `capture_upstream_gradients` has tagged. Out: their gradients by tag, in the tape or context that was
there when the gradients were made.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tensorflow.python.eager import backprop as _backprop

_local = threading.local()


class _Captures:
    """Gradients by tag."""

    def __init__(self) -> None:
        self._captured: dict[str, Any] = {}

    @property
    def captured_gradients(self) -> dict[str, Any]:
        return self._captured

    def add(self, tag: str, gradients: list[Any]) -> None:
        self._captured[tag] = gradients[0] if len(gradients) == 1 else gradients


class GradientCaptureContext(_Captures):
    """Captures gradients that are made inside."""

    def __enter__(self) -> GradientCaptureContext:
        _stack().append(self)
        return self

    def __exit__(self, *problem: Any) -> None:
        _stack().remove(self)


class GradientCaptureTape(_Captures, _backprop.GradientTape):  # type: ignore[misc]
    """A tape that captures gradients which it makes itself, or which are made inside."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        _Captures.__init__(self)
        _backprop.GradientTape.__init__(self, persistent, watch_accessed_variables)

    def __enter__(self) -> GradientCaptureTape:
        _stack().append(self)
        _backprop.GradientTape.__enter__(self)
        return self

    def __exit__(self, *problem: Any) -> None:
        _stack().remove(self)
        _backprop.GradientTape.__exit__(self, *problem)

    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        with capture_into(self):
            return super().gradient(*args, **kwargs)


def _stack() -> list[_Captures]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    found: list[_Captures] = _local.stack
    return found


@contextlib.contextmanager
def capture_into(captures: Any) -> Iterator[None]:
    """Gradients that are made inside are captured there; None for nowhere else than before."""
    if captures is not None:
        _stack().append(captures)
    try:
        yield
    finally:
        if captures is not None:
            _stack().pop()


def find_captures() -> _Captures:
    """Where captured gradients go."""
    stack = _stack()
    if not stack:
        raise RuntimeError(
            "capture_upstream_gradients may only be used within the context of a GradientCaptureTape or a "
            "GradientCaptureContext where its gradient is taken. Use one of tensorflow.python.ipu.eager.backprop."
        )
    return stack[-1]
