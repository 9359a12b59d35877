"""All-reduces of tensor parallel models, with gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import popxl
from popxl import ReplicaGrouping, Tensor, ops
from popxl._ir.operation import Rule, make_op
from popxl.ops.collectives.collectives import CollectiveOps, to_collective_op
from popxl.ops.collectives.replicated import _reduce_all as reduce_all

__all__ = [
    "replicated_all_reduce",
    "replicated_all_reduce_identical_grad_inputs",
    "replicated_all_reduce_identical_inputs",
]


def replicated_all_reduce(t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None) -> Tensor:
    """Reduce over the replicas of a group, forward and backward."""
    return ops.collectives.replicated_all_reduce(t, op=op, group=group)


def replicated_all_reduce_identical_inputs(
    t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """For a tensor that all replicas of a group have alike: forward does nothing, backward reduces."""
    return _reduce_one_way(t, op, group, forward=False)


def replicated_all_reduce_identical_grad_inputs(
    t: Tensor, op: CollectiveOps = "add", group: ReplicaGrouping | None = None
) -> Tensor:
    """For a result whose gradient all replicas of a group have alike: forward reduces, backward does nothing."""
    return _reduce_one_way(t, op, group, forward=True)


def _reduce_one_way(t: Tensor, op: CollectiveOps, group: ReplicaGrouping | None, forward: bool) -> Tensor:
    kind = to_collective_op(op)
    replicas = group if group is not None else popxl.gcg().ir.replica_grouping()

    def reduce(x: torch.Tensor) -> torch.Tensor:
        reduced: torch.Tensor = reduce_all(x, kind, replicas)
        return reduced

    def differentiate(gradients: Sequence[torch.Tensor], *_: object) -> list[torch.Tensor]:
        (gradient,) = gradients
        return [gradient.clone() if forward else reduce(gradient)]

    (result,) = make_op(
        "ReplicatedAllReduceTP",
        reduce if forward else torch.clone,
        [t],
        rule=Rule(inputs=(), formula=differentiate),
        specs=[(t.shape, t.dtype)],
        name="replicated_all_reduce_TP_out",
        meta_shape=t.meta_shape,
    )
    return result
