"""Norms of gradients of a scaled loss."""

from __future__ import annotations

import torch

import popxl
from popxl._ir.operation import make_op

__all__ = ["grad_reduce_square_add"]


def grad_reduce_square_add(t: popxl.Tensor, loss_scaling: float | popxl.Tensor) -> popxl.Tensor:
    """The sum of the squares of ``t / loss_scaling``, in float32."""
    scale = 1 / (loss_scaling * loss_scaling)
    if not isinstance(scale, popxl.Tensor):
        scale = popxl.constant(scale, popxl.float32)

    def reduce(t: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return t.float().square().sum() * scale.float()

    (reduced,) = make_op("GradReduceSquareAdd", reduce, [t, scale], name="grad_reduced")
    return reduced
