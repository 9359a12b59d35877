"""A dense layer."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ReplicaGrouping
from popxl.utils import to_numpy
from popxl_addons.layers.initial_values import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

__all__ = ["Linear"]


class Linear(Module):
    """``x @ weight + bias``, with ``weight`` of shape ``(in, out)``."""

    def __init__(self, out_features: int, bias: bool = True, replica_grouping: ReplicaGrouping | None = None) -> None:
        super().__init__()
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """``(…, in)`` to ``(…, out)``."""
        values = partial(truncated_normal, (x.shape[-1], self.out_features))
        weight = self.add_variable_input("weight", values, x.dtype, replica_grouping=self.replica_grouping)
        y = x @ weight
        if self.bias:
            zeros = partial(np.zeros, y.shape[-1])
            y = y + self.add_variable_input("bias", zeros, x.dtype, replica_grouping=self.replica_grouping)
        return y

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """The weights of a ``torch.nn.Linear`` for the variables of this layer."""
        weights = WeightsDict({variables.weight: to_numpy(nn_layer.weight.data, dtype).T})
        if "bias" in variables:
            weights[variables.bias] = to_numpy(nn_layer.bias.data, dtype)
        return weights
