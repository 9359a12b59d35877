"""Padding of any dimensions, and the "same" paddings of windows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.capture import is_on_ipu


def pad_edges(x: torch.Tensor, pads: Sequence[int], mode: str, value: torch.Tensor | float) -> torch.Tensor:
    """`pads`: in front of each dimension, then behind each. Negative ones cut off."""
    rank = x.dim()
    if len(pads) != 2 * rank:
        raise ValueError(f"a tensor of {rank} dimensions needs {2 * rank} pads, not {len(pads)}")
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    if mode == "constant":
        return _pad_constant(x, pairs, value)
    for axis, (before, behind) in enumerate(pairs):
        if before or behind:
            x = x.index_select(axis, _find_sources(x.shape[axis], before, behind, mode))
    return x


def _pad_constant(x: torch.Tensor, pairs: list[tuple[int, int]], value: torch.Tensor | float) -> torch.Tensor:
    flat = [number for pair in reversed(pairs) for number in pair]
    if not any(flat):
        return x
    if isinstance(value, torch.Tensor) and not is_on_ipu(value):
        value = value.reshape(()).item()
    if not isinstance(value, torch.Tensor):
        return F.pad(x, flat, value=value)
    inside = F.pad(torch.ones_like(x, dtype=torch.bool), flat)
    return torch.where(inside, F.pad(x, flat), value.reshape(()).to(x.dtype))


def _find_sources(size: int, before: int, behind: int, mode: str) -> torch.Tensor:
    """For each place of the padded dimension, which place of the old one it shows."""
    places = torch.arange(-before, size + behind, dtype=torch.int64)
    if mode == "edge":
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return places.remainder(size)
    if mode == "reflect":
        if size == 1:
            return torch.zeros_like(places)
        period = 2 * (size - 1)
        turned = places.remainder(period)
        return torch.minimum(turned, period - turned)
    raise ValueError(f"the mode of padding {mode!r} is unknown")


def find_same_pads(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], *, lower: bool
) -> list[int]:
    """Pads (all in front, then all behind) with which a window of this stride gives ceil(size / stride) results."""
    before, behind = [], []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        results = -(-size // stride)
        total = max(0, (results - 1) * stride + dilation * (width - 1) + 1 - size)
        small, large = total // 2, total - total // 2
        before.append(large if lower else small)
        behind.append(small if lower else large)
    return [*before, *behind]
