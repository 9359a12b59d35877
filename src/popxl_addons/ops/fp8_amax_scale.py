"""Scales for numbers of eight bits."""

from __future__ import annotations

import popxl
from popxl import ops

__all__ = ["fp8_amax_scale"]

LARGEST = {popxl.float8_143: 240.0, popxl.float8_152: 57344.0}


def fp8_amax_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """The power of two by which ``src`` can be scaled so that its largest element still fits the format."""
    if src.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"scales are for float16 and float32, not {src.dtype}")
    log2_scale = ops.log2(LARGEST[dtype] / ops.max(ops.abs(src)))
    return ops.clip(ops.cast(ops.floor(log2_scale), popxl.int32), -31, 31)
