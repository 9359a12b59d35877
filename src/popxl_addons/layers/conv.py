"""Convolution of images."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import popxl
from popxl import ReplicaGrouping, ops
from popxl.utils import to_numpy
from popxl_addons.layers.initial_values import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

__all__ = ["Conv2D"]


class Conv2D(Module):
    """A convolution of ``(n, c, h, w)``. ``paddings``: four widths, or ``same_upper``, ``same_lower``, ``valid``.

    The lists of options are PopXL's, one entry for forward and each gradient; see ``popxl.ops.conv``.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: tuple[int, int] | int,
        strides: tuple[int, int] = (1, 1),
        paddings: str | tuple[int, ...] = (0, 0, 0, 0),
        dilations: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        available_memory_proportions: list[float] | None = None,
        partials_types: list[str] | None = None,
        enable_conv_dithering: list[int] | None = None,
        replica_grouping: ReplicaGrouping | None = None,
    ) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.k_h, self.k_w = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
        self.strides = strides
        self.dilations = dilations
        self.groups = groups
        self.pad_type: Any = paddings if isinstance(paddings, str) else "not_set"
        self.paddings = (0, 0, 0, 0) if isinstance(paddings, str) else paddings
        self.has_bias = bias
        self.options: dict[str, Any] = {
            "available_memory_proportions": available_memory_proportions,
            "partials_types": partials_types,
            "enable_conv_dithering": enable_conv_dithering,
        }
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """``(n, c, h, w)`` to ``(n, out_channels, …)``."""
        if len(x.shape) != 4:
            raise ValueError(f"a convolution of images needs four dimensions, not {x.shape}")
        values = partial(truncated_normal, (self.out_channels, x.shape[1] // self.groups, self.k_h, self.k_w))
        self.weight = self.add_variable_input("weight", values, x.dtype, replica_grouping=self.replica_grouping)
        how = (self.strides, self.paddings, self.dilations, self.groups, self.pad_type)
        y = ops.conv(x, self.weight, *how, **self.options)
        if self.has_bias:
            zeros = partial(np.zeros, (1, self.out_channels, 1, 1))
            self.bias = self.add_variable_input("bias", zeros, x.dtype, replica_grouping=self.replica_grouping)
            y = y + self.bias
        return y

    @staticmethod
    def torch_mapping(variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32) -> WeightsDict:
        """The weights of a ``torch.nn.Conv2d`` for the variables of this layer."""
        weights = WeightsDict({variables.weight: to_numpy(nn_layer.weight.data, dtype)})
        if "bias" in variables:
            weights[variables.bias] = to_numpy(nn_layer.bias.data.reshape(variables.bias.shape), dtype)
        return weights
