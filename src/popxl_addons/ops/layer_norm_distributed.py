"""Layer normalisation over a dimension that the replicas of a group have parts of."""

from __future__ import annotations

import popxl
from popxl import ReplicaGrouping, ops
from popxl_addons.ops.replicated_all_reduce_TP import replicated_all_reduce

__all__ = ["layer_norm_distributed"]


def layer_norm_distributed(
    t: popxl.Tensor, w: popxl.Tensor, b: popxl.Tensor, epsilon: float = 1e-5, group: ReplicaGrouping | None = None
) -> popxl.Tensor:
    """Normalise ``(n, part of c)`` over all of c; ``w`` and ``b`` are the parts of scale and shift."""
    if t.rank != 2 or w.rank != 1 or b.rank != 1:
        raise ValueError(f"a matrix and two vectors are needed, not {t.shape}, {w.shape}, {b.shape}")
    replicas = group or popxl.gcg().ir.replica_grouping()
    share = 1 / (t.shape[-1] * replicas.group_size)

    def mean(x: popxl.Tensor) -> popxl.Tensor:
        return replicated_all_reduce(ops.sum(x, 1, keepdims=True) * share, group=replicas)

    x = ops.cast(t, popxl.float32)
    centred = x - mean(x)
    deviation = ops.sqrt(mean(centred * centred) + epsilon)
    return ops.cast(centred / deviation, t.dtype) * w + b
