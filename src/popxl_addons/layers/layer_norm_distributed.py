"""Layer normalisation of a hidden dimension that replicas share."""

from __future__ import annotations

from functools import partial

import numpy as np

import popxl
from popxl import ReplicaGrouping
from popxl_addons.module import Module
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed

__all__ = ["LayerNormDistributed"]


class LayerNormDistributed(Module):
    """As ``LayerNorm``, where each replica of ``replica_grouping`` has a part of the hidden dimension."""

    def __init__(self, replica_grouping: ReplicaGrouping | None = None) -> None:
        super().__init__()
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """``(n, part of c)`` to the same."""
        group = self.replica_grouping or popxl.gcg().ir.replica_grouping()
        size, alike = x.shape[-1], group.transpose()
        weight = self.add_variable_input("weight", partial(np.ones, size), x.dtype, replica_grouping=alike)
        bias = self.add_variable_input("bias", partial(np.zeros, size), x.dtype, replica_grouping=alike)
        return layer_norm_distributed(x, weight, bias, epsilon=eps, group=group)
