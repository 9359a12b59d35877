"""Resampling of a tensor, one dimension after the other.

In: for each dimension its old and new size and the scale between them, and how places and weights are chosen. Out: the
tensor at its new sizes. Places and weights depend on sizes alone, so they are constants of the program: a nearest
neighbour is a gather, everything else a product with a small matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from openipu.capture import lift, on_host

_LARGEST_TABLE = 1 << 26  # places or weights of one dimension
_CLOSE = 1e-6


@dataclass(frozen=True)
class Axis:
    """One dimension that changes."""

    axis: int
    size: int
    result: int
    scale: float
    begin: float = 0.0  # of a region, as shares of the dimension
    end: float = 1.0


@dataclass(frozen=True)
class Sampling:
    """How a resampled value is found."""

    mode: str = "nearest"  # or linear, cubic
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    outside: float | None = None  # the value of places that lie outside, where the coordinates have such


def resize(x: torch.Tensor, axes: list[Axis], sampling: Sampling) -> torch.Tensor:
    """Resample some dimensions."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.float32
    for entry in axes:
        if entry.result * (1 if sampling.mode == "nearest" else entry.size) > _LARGEST_TABLE:
            raise ValueError(f"{entry.size} elements cannot become {entry.result}: no IPU can hold them")
        with on_host():
            places = find_places(entry, sampling.coordinates)
            if sampling.mode == "nearest":
                found = _round(places, sampling.nearest).clamp(0, entry.size - 1)
            else:
                found = _weigh(places, entry, sampling).to(dtype).t().contiguous()
        if sampling.mode == "nearest":
            x = x.index_select(entry.axis, lift(found))
        else:
            x = torch.matmul(x.movedim(entry.axis, -1).to(dtype), lift(found)).movedim(-1, entry.axis)
    outside = None if sampling.outside is None else _find_outside(axes, sampling, x.dim())
    if outside is None or sampling.outside is None:
        return x
    return torch.where(lift(outside), torch.full((), sampling.outside, dtype=x.dtype), x)


def _find_outside(axes: list[Axis], sampling: Sampling, rank: int) -> torch.Tensor | None:
    """Which new elements lie beyond the old ones; None: no one does."""
    with on_host():
        outside = torch.zeros((), dtype=torch.bool)
        for entry in axes:
            places = find_places(entry, sampling.coordinates)
            shape = [-1 if axis == entry.axis else 1 for axis in range(rank)]
            outside = outside | ((places < 0) | (places > entry.size - 1)).reshape(shape)
        return outside if bool(outside.any()) else None


def find_places(entry: Axis, mode: str) -> torch.Tensor:
    """Where in the old dimension each new element lies."""
    index = torch.arange(entry.result, dtype=torch.float64)
    size, scale = entry.size, entry.scale
    exact = size * scale  # the new size before it was made whole
    if mode == "half_pixel":
        return (index + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - entry.result / exact) + (index + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (index + 0.5) / scale - 0.5 if abs(exact - 1) > _CLOSE else torch.zeros_like(index)
    if mode == "align_corners":
        return index * (size - 1) / (exact - 1) if exact != 1 else torch.zeros_like(index)
    if mode == "asymmetric":
        return index / scale
    if mode == "tf_half_pixel_for_nn":
        return (index + 0.5) / scale
    if mode == "tf_crop_and_resize":
        if entry.result == 1:
            return torch.full_like(index, 0.5 * (entry.begin + entry.end) * (size - 1))
        return entry.begin * (size - 1) + index * (entry.end - entry.begin) * (size - 1) / (entry.result - 1)
    raise ValueError(f"the coordinate transformation {mode!r} is unknown")


def _round(places: torch.Tensor, mode: str) -> torch.Tensor:
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "round_prefer_floor": lambda x: torch.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: torch.floor(x + 0.5),
        "floor": torch.floor,
        "ceil": torch.ceil,
    }
    if mode not in ways:
        raise ValueError(f"the rounding {mode!r} is unknown")
    return ways[mode](places).to(torch.int64)


def _weigh(places: torch.Tensor, entry: Axis, sampling: Sampling) -> torch.Tensor:
    """The share of each old element in each new one: [new, old]."""
    if sampling.mode not in ("linear", "cubic"):
        raise ValueError(f"the mode of resizing {sampling.mode!r} is unknown")
    reach = 1 if sampling.mode == "linear" else 2
    shrink = min(entry.scale, 1.0) if sampling.antialias else 1.0
    first = math.floor(-reach / shrink) + 1
    floors = torch.floor(places)
    taps = floors[:, None] + torch.arange(first, 2 - first, dtype=torch.float64)[None, :]
    distance = (taps - places[:, None]) * shrink
    weights = _triangle(distance) if sampling.mode == "linear" else _cubic(distance, sampling.cubic_a)
    inside = (taps >= 0) & (taps <= entry.size - 1)
    if sampling.exclude_outside:
        weights = torch.where(inside, weights, 0.0)
    if sampling.exclude_outside or sampling.antialias:
        weights = weights / weights.sum(1, keepdim=True)
    matrix = torch.zeros((entry.result, entry.size), dtype=torch.float64)
    return matrix.scatter_add(1, taps.clamp(0, entry.size - 1).to(torch.int64), weights)


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return torch.clamp(1 - distance.abs(), min=0)


def _cubic(distance: torch.Tensor, a: float) -> torch.Tensor:
    far = distance.abs()
    near = ((a + 2) * far - (a + 3)) * far * far + 1
    tail = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    return torch.where(far <= 1, near, torch.where(far < 2, tail, 0.0))
