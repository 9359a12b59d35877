"""Two names that libraries reach under `poptorch._impl`."""

from __future__ import annotations

from typing import Any

from openipu.capture import is_capturing

__all__ = ["_restoreWrapperIfNecessary", "isDispatchTracing"]


def isDispatchTracing() -> bool:
    """True while `forward` is being captured."""
    return is_capturing()


def _restoreWrapperIfNecessary(value: Any) -> Any:
    """The value itself: weights are pickled as plain tensors, so that nothing is left to restore."""
    return value
