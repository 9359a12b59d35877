"""Group normalisation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ReplicaGrouping, ops
from popxl_addons.layers.layer_norm import LayerNorm
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

__all__ = ["GroupNorm"]


class GroupNorm(Module):
    """Normalises groups of channels; channels are the second dimension."""

    def __init__(
        self,
        num_groups: int,
        replica_grouping: ReplicaGrouping | None = None,
        eps: float = 1e-5,
        cache: bool = False,
    ) -> None:
        super().__init__(cache)
        self.num_groups = num_groups
        self.replica_grouping = replica_grouping
        self.eps = eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """``(n, c, …)`` to the same."""
        channels = x.shape[1]
        group = self.replica_grouping
        self.weight = self.add_variable_input("weight", partial(np.ones, channels), x.dtype, replica_grouping=group)
        self.bias = self.add_variable_input("bias", partial(np.zeros, channels), x.dtype, replica_grouping=group)
        return ops.group_norm(x, self.weight, self.bias, self.num_groups, self.eps)

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """The weights of a ``torch.nn.GroupNorm`` for the variables of this layer."""
        return LayerNorm.torch_mapping(variables, nn_layer, dtype)
