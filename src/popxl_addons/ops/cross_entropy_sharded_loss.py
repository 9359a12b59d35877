"""Cross entropy of classes that the replicas of a group have parts of."""

from __future__ import annotations

from typing import Literal

import torch

import popxl
from popxl import ReplicaGrouping, Tensor, ops
from popxl._ir.operation import Rule, make_op
from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce_identical_grad_inputs

__all__ = ["cross_entropy_sharded_loss"]


def cross_entropy_sharded_loss(
    logits: Tensor,
    indices: Tensor,
    ignore_index: Tensor | None = None,
    replica_grouping: ReplicaGrouping | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
    available_memory_proportion: float = 0.4,
) -> Tensor:
    """The loss, which all replicas of the group get, of scores ``(n, part of classes)``.

    ``indices`` are labels minus the first class of the replica's part; those outside of it are another replica's.
    ``ignore_index`` is lowered likewise.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"`reduction` is mean, sum or none, not {reduction!r}")
    group = replica_grouping or popxl.gcg().ir.replica_grouping()
    largest = ops.collectives.replicated_all_reduce(_detach(ops.max(logits, [1], keepdims=True)), "max", group)
    shifted = ops.cast(logits - largest, popxl.float32)
    total = replicated_all_reduce_identical_grad_inputs(ops.sum(ops.exp(shifted), 1), group=group)
    chosen = replicated_all_reduce_identical_grad_inputs(_pick(shifted, indices), group=group)
    loss = ops.cast(ops.log(total) - chosen, logits.dtype)
    if ignore_index is not None:
        counted = ops.cast(ops.logical_not(ops.equal(indices, ignore_index)), loss.dtype)
        loss = loss * counted
        if reduction == "mean":
            return ops.sum(loss) / ops.sum(counted)
    return loss if reduction == "none" else ops.mean(loss) if reduction == "mean" else ops.sum(loss)


def _detach(t: Tensor) -> Tensor:
    """The same value; backward ends here."""
    (value,) = make_op("Detach", torch.clone, [t], rule=Rule(inputs=(), formula=lambda *_: [None]), name="detached")
    return value


def _pick(scores: Tensor, indices: Tensor) -> Tensor:
    """The score of each label, or zero where the label is not in this part."""
    classes = scores.shape[-1]

    def pick(scores: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        places = indices.to(torch.int32).long()  # labels below the part are negative, also in unsigned formats
        inside = (places >= 0) & (places < classes)
        found = scores.gather(1, places.clamp(0, classes - 1).unsqueeze(1)).squeeze(1)
        return torch.where(inside, found, torch.zeros_like(found))

    (picked,) = make_op("PickLabels", pick, [scores, indices], rule=Rule(), name="picked")
    return picked
