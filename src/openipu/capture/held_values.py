"""`openipu::hold`: the value that a tensor has at one point of a recording.

In: a tensor and strides. Out: the same value in memory of its own, laid out by those strides, which no later write
reaches. It exists while a graph is being recorded and made functional. In a functional graph nothing is ever written:
there it is another name for its argument, and is taken out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_library = torch.library.Library("openipu", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("hold(Tensor self, int[] stride) -> Tensor")  # type: ignore[no-untyped-call]


def _hold_meta(tensor: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device)


_library.impl("hold", _hold_meta, "Meta")  # type: ignore[no-untyped-call]
HOLD = torch.ops.openipu.hold.default


def find_dense_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The tensor's own strides, where its elements lie side by side, each once; else those of a copy of it."""
    return tuple(tensor.stride()) if is_dense(tensor) else tuple(torch.empty_like(tensor).stride())


def is_dense(tensor: torch.Tensor) -> bool:
    """Do its elements lie side by side in some order, each once?"""
    expected = 1
    for size, stride in sorted(_list_extents(tensor), key=lambda extent: extent[1]):
        if stride != expected:
            return False
        expected *= size
    return True


def has_layout(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Do both of this one shape lie in memory in the same order? The stride of one element says nothing."""
    return _list_extents(tensor) == _list_extents(other)


def _list_extents(tensor: torch.Tensor) -> list[tuple[int, int]]:
    if not tensor.numel():
        return []
    return [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]
