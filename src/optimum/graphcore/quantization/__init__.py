"""Weights in 4 bits."""

from optimum.graphcore.quantization.group_quantize import (
    GroupQuantLinear,
    group_quantize_compress,
    group_quantize_decompress,
)
from optimum.graphcore.quantization.layers import quantize_linear_layers

__all__ = [
    "GroupQuantLinear",
    "group_quantize_compress",
    "group_quantize_decompress",
    "quantize_linear_layers",
]
