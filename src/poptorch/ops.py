"""Functions that users call inside `forward`. Outside of a capture they are plain PyTorch."""

from __future__ import annotations

import torch

from openipu.capture import is_capturing, mark_loss
from poptorch.errors import createPoptorchError

_REDUCTIONS = ("sum", "mean", "none")


def isRunningOnIpu() -> bool:
    """True only while `forward` is being captured for an IPU."""
    return is_capturing()


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Mark `x`, reduced by "sum", "mean" or "none", as the loss that training starts from."""
    assert reduction in _REDUCTIONS, "Unsupported reduction type!"
    return mark_loss(x, reduction)


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """The same values under a new name."""
    if not isinstance(tensor, torch.Tensor):
        raise createPoptorchError(f"nop takes a tensor, not {type(tensor)}: pass a torch.Tensor.")
    return tensor.clone()
