"""Pools and their gradients."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.capture import on_host
from openipu.translate.rules import rule
from openipu.translate.site import Site
from openipu.translate.tensorflow.ops.layouts import (
    Windows,
    channels_as_given,
    channels_first,
    has_channels_last,
    read_windows,
)

Tensor = torch.Tensor
aten = torch.ops.aten


def _read(site: Site, sizes: list[int], last: bool) -> Windows:
    """Windows over the spatial sizes; a pool has no dilation."""
    kernel = [int(number) for number in site.get("ksize")]
    return read_windows(site, sizes, kernel[1:-1] if last else kernel[2:], last)


def _fits_torch(windows: Windows) -> bool:
    """Torch pads both sides alike, and at most by half a window."""
    return windows.symmetric and all(
        2 * pad <= width for pad, width in zip(windows.before, windows.kernel, strict=True)
    )


def _pad(x: Tensor, windows: Windows, value: float) -> tuple[Tensor, list[int]]:
    if _fits_torch(windows):
        return x, list(windows.before)
    return F.pad(x, windows.pad_sizes(), value=value), [0] * windows.rank


def _cut(x: Tensor, windows: Windows, sizes: list[int]) -> Tensor:
    if _fits_torch(windows):
        return x
    for place, size in enumerate(sizes):
        x = x.narrow(2 + place, windows.before[place], size)
    return x


@rule("MaxPool", "MaxPoolV2", "MaxPool3D")
def find_largest(site: Site) -> Tensor:
    last = has_channels_last(site)
    x = channels_first(site.input(0), last)
    windows = _read(site, list(x.shape[2:]), last)
    x, padding = _pad(x, windows, -math.inf)
    pool = aten.max_pool2d_with_indices if windows.rank == 2 else aten.max_pool3d_with_indices
    return channels_as_given(pool(x, list(windows.kernel), list(windows.strides), padding)[0], last)


@rule("MaxPoolGrad", "MaxPool3DGrad")
def find_largest_gradient(site: Site) -> Tensor:
    """(input, result, gradient). Of several largest elements the first gets it, in TensorFlow as in torch."""
    last = has_channels_last(site)
    x, gradient = channels_first(site.input(0), last), channels_first(site.input(2), last)
    sizes = list(x.shape[2:])
    windows = _read(site, sizes, last)
    x, padding = _pad(x, windows, -math.inf)
    kernel, strides, ones = list(windows.kernel), list(windows.strides), [1] * windows.rank
    flat = windows.rank == 2
    _, places = (aten.max_pool2d_with_indices if flat else aten.max_pool3d_with_indices)(x, kernel, strides, padding)
    backward = aten.max_pool2d_with_indices_backward if flat else aten.max_pool3d_with_indices_backward
    found = backward(gradient, x, kernel, strides, padding, ones, False, places)
    return channels_as_given(_cut(found, windows, sizes), last)


@rule("AvgPool", "AvgPool3D")
def average(site: Site) -> Tensor:
    """Pads do not count."""
    last = has_channels_last(site)
    x = channels_first(site.input(0), last)
    sizes = list(x.shape[2:])
    windows = _read(site, sizes, last)
    pool = F.avg_pool2d if windows.rank == 2 else F.avg_pool3d
    kernel, strides = list(windows.kernel), list(windows.strides)
    if _fits_torch(windows):
        found = pool(x, kernel, strides, list(windows.before), False, False)
    else:
        total = pool(F.pad(x, windows.pad_sizes()), kernel, strides, 0, False, True, 1)
        found = total / _count(site, windows, sizes, x.dtype)
    return channels_as_given(found, last)


def _count(site: Site, windows: Windows, sizes: list[int], dtype: torch.dtype) -> Tensor:
    """How many elements of each window are no pads."""
    with on_host():
        ones = F.pad(torch.ones((1, 1, *sizes), dtype=torch.float32), windows.pad_sizes())
        pool = F.avg_pool2d if windows.rank == 2 else F.avg_pool3d
        found = pool(ones, list(windows.kernel), list(windows.strides), 0, False, True, 1).to(dtype)
    return found if site.lift is None else site.lift(found)


@rule("AvgPoolGrad", "AvgPool3DGrad", static=(0,))
def find_average_gradient(site: Site) -> Tensor:
    last = has_channels_last(site)
    shape, gradient = site.numbers(0, "shape of the input"), channels_first(site.input(1), last)
    sizes = shape[1:-1] if last else shape[2:]
    windows = _read(site, sizes, last)
    kernel, strides = list(windows.kernel), list(windows.strides)
    plain = _fits_torch(windows)
    inner = sizes if plain else [n + a + b for n, a, b in zip(sizes, windows.before, windows.behind, strict=True)]
    backward = aten.avg_pool2d_backward if windows.rank == 2 else aten.avg_pool3d_backward
    x = gradient.new_zeros(()).expand([*gradient.shape[:2], *inner])  # its shape alone counts
    if plain:
        found = backward(gradient, x, kernel, strides, list(windows.before), False, False, None)
    else:
        shares = gradient / _count(site, windows, sizes, gradient.dtype)
        found = backward(shares, x, kernel, strides, [0] * windows.rank, False, True, 1)
    return channels_as_given(_cut(found, windows, sizes), last)
