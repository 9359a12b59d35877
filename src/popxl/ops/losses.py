"""Losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812

from popart import popart_exception
from popxl._ir.operation import Rule, make_op
from popxl.dtypes import float32
from popxl.ops.utils import check_tensor_ipu_and_tile_set, make_one
from popxl.tensor import Tensor, constant

REDUCTION_TYPE = Literal["mean", "sum", "none"]
_REDUCTIONS = ("mean", "sum", "none")
_NOBODY = -(2**31)  # a class that no label names


def _check(probs: Tensor, labels: Tensor, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"Not a valid reduction of a loss: {reduction!r}. There are {', '.join(_REDUCTIONS)}.")
    if labels.nelms * probs.shape[-1] != probs.nelms:
        raise popart_exception(
            f"Nll: there has to be one label for each row of the probabilities {probs}, not {labels}."
        )


def _compute(probs: Any, labels: Any, ignored: int | None, reduction: str, log_prob: bool) -> Any:
    logs = probs if log_prob else torch.log(probs)
    flat = labels.reshape(-1).long()
    index = _NOBODY if ignored is None else ignored
    loss = F.nll_loss(logs.reshape(-1, probs.shape[-1]), flat, ignore_index=index, reduction=reduction)
    return loss.reshape(labels.shape) if reduction == "none" else loss


def nll_loss(
    probs: Tensor,
    labels: Tensor,
    ignore_index: int | None = None,
    reduction: REDUCTION_TYPE = "mean",
    log_prob: bool = False,
) -> Tensor:
    """The negative logarithm of the probabilities that the labels have. `log_prob`: they are logarithms already."""
    _check(probs, labels, reduction)
    check_tensor_ipu_and_tile_set(probs=probs, labels=labels)
    return make_one(
        "Nll", lambda p, which: _compute(p, which, ignore_index, reduction, log_prob), [probs, labels], rule=Rule()
    )


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: float | Tensor = 1,
    ignore_index: int | None = None,
    reduction: REDUCTION_TYPE = "mean",
) -> tuple[Tensor, Tensor]:
    """The loss of probabilities that a softmax made, and its gradient with respect to the softmax's input."""
    _check(probs, labels, reduction)
    scale = loss_grad if isinstance(loss_grad, Tensor) else constant(loss_grad, float32)
    check_tensor_ipu_and_tile_set(probs=probs, labels=labels, loss_grad=scale)

    def run(p: Any, which: Any, seed: Any) -> Sequence[Any]:
        loss = _compute(p, which, ignore_index, reduction, False)
        classes = torch.arange(p.shape[-1], dtype=which.dtype)
        which = which.reshape(p.shape[:-1])
        hit = (which.unsqueeze(-1) == classes).to(p.dtype)
        weight = seed.to(p.dtype)
        if reduction == "none" and weight.dim():
            weight = weight.unsqueeze(-1)
        kept = None if ignore_index is None else (which != ignore_index)
        if reduction == "mean":
            weight = weight / (which.numel() if kept is None else kept.sum().to(p.dtype))
        gradient = (p - hit) * weight
        return loss, gradient if kept is None else gradient * kept.unsqueeze(-1).to(p.dtype)

    found = make_op("NllWithSoftmaxGradDirect", run, [probs, labels, scale], names=("loss", "dE_dX"))
    return found[0], found[1]
