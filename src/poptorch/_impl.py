"""The names that libraries reach under `poptorch._impl`."""

from __future__ import annotations

from typing import Any

import torch

from openipu.capture import is_capturing
from poptorch._weights.wrapping import restore_wrapping, set_wrapping_aside

__all__ = ["_restoreWrapperIfNecessary", "isDispatchTracing", "rewrapModelIfNecessary", "unwrapModelIfNecessary"]


def isDispatchTracing() -> bool:
    """True while `forward` is being captured."""
    return is_capturing()


def unwrapModelIfNecessary(model: torch.nn.Module) -> None:
    """Make a model that `trainingModel` wrapped a plain one, so that parts of it can be wrapped otherwise."""
    set_wrapping_aside(model)


def rewrapModelIfNecessary(model: torch.nn.Module) -> None:
    """Undo `unwrapModelIfNecessary`."""
    restore_wrapping(model)


def _restoreWrapperIfNecessary(value: Any) -> Any:
    """The value itself: weights are pickled as plain tensors, so that nothing is left to restore."""
    return value
