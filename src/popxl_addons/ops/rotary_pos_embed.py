"""Rotary positions: pairs of neighbouring elements are turned by an angle that grows with the position."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import popxl
from popxl._ir.operation import VALUES, make_op

__all__ = ["rotary_pos_embed", "trig_table_constants", "trig_tables"]


def trig_tables(
    seq_len: int, rotary_dim: int, base: int = 10000, np_dtype: Any = "float32"
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sines and cosines, ``(seq_len, rotary_dim / 2)``, of ``position * base ** (-2 i / rotary_dim)``."""
    exponents = np.arange(0, rotary_dim, 2, dtype=np_dtype) / rotary_dim
    positions = np.arange(seq_len, dtype=np_dtype)
    angles = positions[:, None] * base**-exponents
    return np.sin(angles), np.cos(angles)


def trig_table_constants(
    seq_len: int, rotary_dim: int, base: int = 10000, dtype: popxl.dtype = popxl.float32
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The tables as constants of the current graph."""
    tables = trig_tables(seq_len, rotary_dim, base, dtype.as_numpy())
    sines, cosines = (popxl.constant(table, dtype) for table in tables)
    return sines, cosines


def rotary_pos_embed(
    t: popxl.Tensor, sin: popxl.Tensor, cos: popxl.Tensor, rotary_dim: int | None = None
) -> popxl.Tensor:
    """Turn the first ``rotary_dim`` elements (all, unless said) of ``(batch, sequence, heads, size)``."""
    size = rotary_dim or t.shape[-1]
    if t.rank != 4 or sin.rank not in (2, 3) or cos.rank not in (2, 3):
        raise ValueError(f"rotary positions of {t.shape} with tables {sin.shape} and {cos.shape}")

    def rotate(x: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        sin, cos = sin.unsqueeze(-2), cos.unsqueeze(-2)  # the same for all heads
        real, imaginary = x[..., :size:2], x[..., 1:size:2]
        turned = torch.stack([real * cos - imaginary * sin, imaginary * cos + real * sin], -1).flatten(-2)
        return torch.cat([turned, x[..., size:]], -1)

    (rotated,) = make_op("RotaryPosEmbed", rotate, [t, sin, cos], rule=VALUES, name="t_rotated")
    return rotated
