"""Windows over images, volumes and sequences, with pads on either side, dilation, and a last window that hangs over."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

_LARGEST: dict[int, Callable[..., Any]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGES: dict[int, Callable[..., torch.Tensor]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}

_WIDEST_SUM = 4096  # elements along a dimension that are added one by one


@dataclass(frozen=True)
class Windows:
    """What a pool looks at: lists with one number per dimension; `pads` in front of each, then behind each."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]
    hanging: bool = False  # a last window that starts inside and ends outside counts

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def count_results(self, axis: int, size: int) -> int:
        """Windows along a dimension."""
        reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
        room = size + self.pads[axis] + self.pads[axis + self.rank] - reach
        count = (-(-room // self.strides[axis]) if self.hanging else room // self.strides[axis]) + 1
        if self.hanging and (count - 1) * self.strides[axis] >= size + self.pads[axis]:
            count -= 1  # a window that starts in the pads behind counts for nothing
        return max(count, 0)

    def find_pads(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Pads in front and behind with which every window that counts lies inside."""
        found = []
        for axis, size in enumerate(sizes):
            count = self.count_results(axis, size)
            reach = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            needed = (count - 1) * self.strides[axis] + reach
            found.append((self.pads[axis], needed - size - self.pads[axis]))
        return found

    def find_plain_pads(self, sizes: Sequence[int]) -> list[int] | None:
        """Pads that a pool of torch adds by itself: the same on both sides, at most half a window.

        Elements behind the last whole window count for nobody.
        """
        before, behind = list(self.pads[: self.rank]), list(self.pads[self.rank :])
        if before != behind or any(2 * pad > width for pad, width in zip(before, self.kernel, strict=True)):
            return None
        whole = replace(self, hanging=False)
        counts = [self.count_results(axis, size) for axis, size in enumerate(sizes)]
        plain = counts == [whole.count_results(axis, size) for axis, size in enumerate(sizes)]
        return before if plain else None


def find_largest(x: torch.Tensor, windows: Windows, *, places: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The largest element of each window and, if wanted, where it lies in the whole tensor."""
    if windows.rank not in _LARGEST:
        raise ValueError(f"pools over {windows.rank} dimensions are not known")
    sizes = list(x.shape[2:])
    plain = windows.find_plain_pads(sizes)
    if plain is not None and not places and x.dtype.is_floating_point:
        return _LARGEST[windows.rank](x, windows.kernel, windows.strides, plain, windows.dilations), None
    pads = windows.find_pads(sizes)
    lowest = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    flat = [number for pair in reversed(pads) for number in pair]
    padded = F.pad(x, flat, value=lowest) if any(flat) else x
    pool = _LARGEST[windows.rank]
    small = not x.dtype.is_floating_point
    source = padded.to(torch.float32) if small else padded
    found = pool(source, windows.kernel, windows.strides, 0, windows.dilations, False, places)
    values, index = found if places else (found, None)
    if small:
        values = values.to(x.dtype)
    if index is None:
        return values, None
    padded_sizes = list(padded.shape[2:])
    kept = torch.zeros_like(index)
    for axis, size in enumerate(sizes):
        behind = math.prod(padded_sizes[axis + 1 :])
        place = (index // behind) % padded_sizes[axis] - pads[axis][0]
        kept = kept * size + place
    planes = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * windows.rank)
    return values, kept + planes * math.prod(sizes)


def average_windows(x: torch.Tensor, windows: Windows, *, count_pads: bool, divisor: int | None = None) -> torch.Tensor:
    """The mean of each window; pads count as zeros, or not at all. With a divisor: the sum over it."""
    sizes = list(x.shape[2:])
    plain = windows.find_plain_pads(sizes)
    if plain is not None and divisor is None and windows.rank in _AVERAGES and set(windows.dilations) == {1}:
        return _AVERAGES[windows.rank](x, windows.kernel, windows.strides, plain, False, count_pads)
    pads = windows.find_pads(sizes)
    flat = [number for pair in reversed(pads) for number in pair]
    total = _add_windows(F.pad(x, flat) if any(flat) else x, windows)
    if divisor is not None:
        return total if divisor == 1 else total / divisor
    counted = torch.ones((1, 1, *sizes), dtype=x.dtype)
    if count_pads:  # those that the user gave, not those of a window that hangs over
        given = [
            number
            for axis in reversed(range(windows.rank))
            for number in (windows.pads[axis], windows.pads[axis + windows.rank])
        ]
        counted = F.pad(counted, given, value=1.0)
        rest = [(0, max(0, behind - windows.pads[axis + windows.rank])) for axis, (_, behind) in enumerate(pads)]
        cut = [(0, min(0, behind - windows.pads[axis + windows.rank])) for axis, (_, behind) in enumerate(pads)]
        counted = F.pad(counted, [n for pair in reversed(cut) for n in pair])
        counted = F.pad(counted, [n for pair in reversed(rest) for n in pair])
    else:
        counted = F.pad(counted, flat)
    return total / _add_windows(counted, windows)


def _add_windows(x: torch.Tensor, windows: Windows) -> torch.Tensor:
    """Sums of windows without pads."""
    if max(windows.kernel) > _WIDEST_SUM:
        raise ValueError(f"windows of {list(windows.kernel)} elements are wider than {_WIDEST_SUM}")
    for axis in range(windows.rank):
        place = axis + 2
        reach = windows.dilations[axis] * (windows.kernel[axis] - 1) + 1
        count = (x.shape[place] - reach) // windows.strides[axis] + 1
        parts = [
            x.narrow(place, step * windows.dilations[axis], (count - 1) * windows.strides[axis] + 1)[
                (slice(None),) * place + (slice(None, None, windows.strides[axis]),)
            ]
            for step in range(windows.kernel[axis])
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        x = total
    return x
