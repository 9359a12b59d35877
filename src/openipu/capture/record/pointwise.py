"""Shapes of plain arithmetic, without asking PyTorch.

In: an op that is being recorded. Out: what its meta kernel would return, where that is obvious. PyTorch's own meta
kernels of arithmetic are written in Python for every case there is; an optimizer's update is thousands of the simplest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

aten = torch.ops.aten

_ARITHMETIC = frozenset(
    {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.sqrt.default, aten.neg.default}
)
_META = torch.device("meta")


def make_pointwise_result(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """A new meta tensor: for contiguous tensors of one shape and one floating type, beside scalars. Else None."""
    if func not in _ARITHMETIC or kwargs:
        return None
    shape: torch.Size | None = None
    stride: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    for value in args:
        if isinstance(value, torch.Tensor):
            if dtype is None:
                dtype = value.dtype
            elif value.dtype is not dtype:
                return None
            if not shape:
                shape, stride = value.shape, value.stride()
            elif value.dim() and (value.shape != shape or value.stride() != stride):
                return None
        elif type(value) not in (int, float):
            return None
    if dtype is None or shape is None or not dtype.is_floating_point:
        return None
    result = torch.empty(shape, dtype=dtype, device=_META)
    # Of a transposed tensor the result is transposed as well: let PyTorch say how.
    return result if result.stride() == stride else None
