"""Meta tensors that lie densely: which are such, and new ones.

In: operands of an op that is being recorded. Out: what the rules of `plain_results` and `plain_layers` are made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

META = torch.device("meta")


def make(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A new meta tensor, row behind row."""
    return torch.empty(shape, dtype=dtype, device=META)


def copy(tensor: torch.Tensor) -> torch.Tensor:
    """A new meta tensor of the same shape and format."""
    return make(tensor.shape, tensor.dtype)


def are_plain(*tensors: Any) -> bool:
    """Whether all are tensors of one floating format, which lie row behind row and hold something."""
    first = tensors[0]
    return all(
        isinstance(one, torch.Tensor) and one.dtype is first.dtype and one.dtype.is_floating_point and is_dense(one)
        for one in tensors
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Row behind row, with the usual stride for dimensions of one element; or one number everywhere, which has no order
    of its own either."""
    if tensor.dim() and not any(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1):
        return tensor.numel() > 0
    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if stride != expected or size == 0:
            return False
        expected *= size
    return True


def broadcast(tensors: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """The common shape; None unless one of the tensors has it: the order of the result is then that one's."""
    rank = max(tensor.dim() for tensor in tensors)
    shapes = [(1,) * (rank - tensor.dim()) + tuple(tensor.shape) for tensor in tensors]
    common = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    fits = all(size in (1, whole) for shape in shapes for size, whole in zip(shape, common, strict=True))
    return common if fits and any(tuple(tensor.shape) == common for tensor in tensors) else None
