"""Norms of gradients of a scaled loss."""

from __future__ import annotations

import torch

import popxl
from popxl._ir.operation import make_op

__all__ = ["grad_reduce_square_add"]


def grad_reduce_square_add(t: popxl.Tensor, loss_scaling: float | popxl.Tensor) -> popxl.Tensor:
    """The sum of the squares of ``t / loss_scaling``, in float32."""
    scaling = loss_scaling if isinstance(loss_scaling, popxl.Tensor) else popxl.constant(loss_scaling, popxl.float32)

    def reduce(t: torch.Tensor, scaling: torch.Tensor) -> torch.Tensor:
        return t.float().square().sum() / scaling.float().square()

    (reduced,) = make_op("GradReduceSquareAdd", reduce, [t, scaling], name="grad_reduced")
    return reduced
