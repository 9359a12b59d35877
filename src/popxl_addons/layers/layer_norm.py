"""Layer normalisation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

__all__ = ["LayerNorm"]


class LayerNorm(Module):
    """Normalises over the last dimension of a matrix; other shapes are to be flattened first."""

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """``(n, c)`` to ``(n, c)``."""
        if len(x.shape) != 2:
            raise ValueError(f"a matrix N x C is normalised over C; flatten {x.shape} to one first")
        channels = x.shape[1]
        gain = self.add_variable_input("weight", partial(np.ones, channels), x.dtype)
        shift = self.add_variable_input("bias", partial(np.zeros, channels), x.dtype)
        return ops.layer_norm(x, gain, shift, eps)

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """The weights of a ``torch.nn.LayerNorm``, flattened, for the variables of this layer."""
        return WeightsDict(
            {
                variables.weight: to_numpy(nn_layer.weight.data.reshape(-1), dtype),
                variables.bias: to_numpy(nn_layer.bias.data.reshape(-1), dtype),
            }
        )
