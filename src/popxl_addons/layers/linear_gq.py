"""A dense layer whose weights are kept in four bits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ReplicaGrouping
from popxl.utils import to_numpy
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.group_quantize_decompress import group_quantize_compress_numpy, group_quantize_decompress
from popxl_addons.utils import WeightsDict

__all__ = ["LinearGQ", "group_quantize_compress_numpy"]


class LinearGQ(Module):
    """``x @ weight + bias`` with the weight decompressed where it is used.

    Variables: ``weight_compressed`` with four numbers in 16 bits, and for each ``group_size`` numbers along ``dim`` a
    scale and a bias. They begin as zeros: :meth:`torch_mapping` compresses weights for them.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: ReplicaGrouping | None = None,
        group_size: int = 0,
        dim: int = -1,
    ) -> None:
        super().__init__()
        self.out_features = out_features
        self.bias = bias
        self.replica_grouping = replica_grouping
        self.group_size = group_size
        self.dim = dim

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """``(…, in)`` to ``(…, out)``."""
        sizes = [x.shape[-1], self.out_features]
        grouped = sizes.pop(self.dim) // self.group_size
        (rows,) = sizes

        def add(name: str, shape: tuple[int, ...], dtype: popxl.dtype) -> popxl.Tensor:
            zeros = partial(np.zeros, shape)
            return self.add_variable_input(name, zeros, dtype, replica_grouping=self.replica_grouping)

        packed = add("weight_compressed", (rows, grouped, self.group_size // 4), popxl.uint16)
        scale = add("weight_decompression_scale", (rows, grouped, 1), x.dtype)
        shift = add("weight_decompression_bias", (rows, grouped, 1), x.dtype)
        y = x @ group_quantize_decompress(packed, scale, shift, self.dim)
        return y + add("bias", (y.shape[-1],), x.dtype) if self.bias else y

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32, group_size: int = 64, dim: int = -1
    ) -> WeightsDict:
        """The weights of a ``torch.nn.Linear``, compressed, for the variables of this layer."""
        packed, scale, shift = group_quantize_compress_numpy(nn_layer.weight.T.detach().numpy(), group_size, dim=dim)
        weights = WeightsDict(
            {
                variables.weight_compressed: packed,
                variables.weight_decompression_scale: scale,
                variables.weight_decompression_bias: shift,
            }
        )
        if "bias" in variables:
            weights[variables.bias] = to_numpy(nn_layer.bias.data, dtype)
        return weights
