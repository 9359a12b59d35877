"""Cross entropy of scores and class labels."""

from __future__ import annotations

from typing import Literal

import popxl
from popxl import ops

__all__ = ["cross_entropy", "cross_entropy_with_grad"]

Reduction = Literal["mean", "sum", "none"]


def cross_entropy(
    x: popxl.Tensor, labels: popxl.Tensor, ignore_index: int | None = None, reduction: Reduction = "mean"
) -> popxl.Tensor:
    """The loss of scores ``(*dims, classes)`` and labels ``(*dims)``; labels of ``ignore_index`` do not count."""
    return ops.nll_loss(ops.softmax(x, axis=-1), labels, ignore_index=ignore_index, reduction=reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float | popxl.Tensor = 1,
    ignore_index: int | None = None,
    reduction: Reduction = "mean",
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The loss as :func:`cross_entropy` has it, and its gradient by ``x`` times ``loss_scaling``."""
    if not isinstance(loss_scaling, popxl.Tensor):
        loss_scaling = popxl.constant(loss_scaling, popxl.float32)
    loss, gradient = ops.nll_loss_with_softmax_grad(
        ops.softmax(x, axis=-1), labels, loss_grad=loss_scaling, ignore_index=ignore_index, reduction=reduction
    )
    return loss, gradient
