"""Weights in four bits: groups of numbers share a scale and a bias (FlexGen, arXiv 2303.06865)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import popxl
from popxl._ir.operation import make_op

__all__ = ["group_quantize_compress_numpy", "group_quantize_decompress", "group_quantize_decompress_numpy"]

Array = np.ndarray[Any, Any]

SHIFTS = (12, 8, 4, 0)  # of the four numbers in 16 bits
LEVELS = 15


def group_quantize_decompress(
    t: popxl.Tensor, group_scale: popxl.Tensor, group_bias: popxl.Tensor, dim: int = -1
) -> popxl.Tensor:
    """Numbers of ``(rows, groups, packed)``, times a scale and plus a bias for each group, as ``(rows, numbers)``.

    ``dim``: the dimension that the numbers were packed along.
    """
    if t.rank != 3:
        raise NotImplementedError(f"packed numbers have three dimensions (rows, groups, packed), not {t.shape}")
    for name, other in (("group_scale", group_scale), ("group_bias", group_bias)):
        if other.rank not in (2, 3) or other.shape[:2] != t.shape[:2]:
            raise ValueError(f"{name} has shape {other.shape}, which does not fit numbers of shape {t.shape}")
    rows, groups = t.shape[:2]

    def decompress(t: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        packed = t.to(torch.int32).bitwise_and(0xFFFF)
        numbers = torch.stack([packed.bitwise_right_shift(shift).bitwise_and(LEVELS) for shift in SHIFTS], -1)
        scale, bias = scale.reshape(rows, groups, 1), bias.reshape(rows, groups, 1)
        values = (numbers.flatten(-2).to(scale.dtype) * scale + bias).flatten(-2)
        return values if dim == -1 else values.movedim(-1, dim)

    dtypes = [group_scale.dtype]
    (values,) = make_op(
        "GroupQuantizeDecompress", decompress, [t, group_scale, group_bias], dtypes=dtypes, name="t_decompressed"
    )
    return values


def group_quantize_decompress_numpy(t: Array, group_scale: Array, group_bias: Array, dim: int) -> Array:
    """The same for arrays of the host, with any number of dimensions before the groups."""
    numbers = np.stack([(t >> shift) & LEVELS for shift in SHIFTS], -1)
    values = numbers.reshape(*t.shape[:-1], -1).astype(np.float16) * group_scale + group_bias
    return np.moveaxis(values.reshape(*t.shape[:-2], -1), -1, dim)


def group_quantize_compress_numpy(t: Array, group_size: int, dim: int) -> tuple[Array, Array, Array]:
    """Packed numbers, scales and biases of an array, in groups of ``group_size`` along a dimension, which goes last."""
    if not np.isfinite(t).all():
        raise ValueError("infinities and NaN cannot be compressed")
    values = np.moveaxis(t, dim, -1)
    grouped = values.reshape(*values.shape[:-1], -1, group_size)
    low = grouped.min(-1, keepdims=True).astype(np.float16)
    scale = (grouped.max(-1, keepdims=True).astype(np.float16) - low) / LEVELS
    numbers = np.round((grouped - low) / scale).astype(np.uint16)
    packed = numbers.reshape(*grouped.shape[:-1], group_size // 4, 4) @ (1 << np.array(SHIFTS)).astype(np.uint16)
    return packed.astype(np.uint16), scale, low
