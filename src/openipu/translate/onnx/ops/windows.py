"""Pooling, and sampling of images at other places."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.kit.padding import pad_edges
from openipu.translate.kit.pooling import Windows, average_windows, find_largest
from openipu.translate.onnx.ops.products import read_pads
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site


def _read_windows(site: Site, x: torch.Tensor) -> Windows:
    rank = x.dim() - 2
    kernel = list(site.get("kernel_shape"))
    strides, dilations = list(site.get("strides", [1] * rank)), list(site.get("dilations", [1] * rank))
    pads = read_pads(site, list(x.shape[2:]), kernel, strides, dilations)
    return Windows(kernel, strides, dilations, pads, bool(site.get("ceil_mode", 0)))


@rule("MaxPool")
def max_pool(site: Site) -> Results:
    x = site.input(0)
    windows = _read_windows(site, x)
    values, places = find_largest(x, windows, places=site.wants(1))
    if places is not None and site.get("storage_order", 0):
        places = _count_by_columns(places, list(x.shape[2:]))
    return [values, places]


def _count_by_columns(places: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """Indices of a tensor that lies column by column."""
    whole = math.prod(sizes)
    plane, rest = places // whole, places % whole
    found, factor = torch.zeros_like(rest), 1
    for axis, size in enumerate(sizes):
        behind = math.prod(sizes[axis + 1 :])
        found = found + (rest // behind) % size * factor
        factor *= size
    return plane * whole + found


@rule("AveragePool")
def average_pool(site: Site) -> torch.Tensor:
    x = site.input(0)
    return average_windows(x, _read_windows(site, x), count_pads=bool(site.get("count_include_pad", 0)))


@rule("LpPool")
def power_pool(site: Site) -> torch.Tensor:
    x, power = site.input(0), site.number("p", 2)
    windows = _read_windows(site, x)
    mean = average_windows(x.abs() ** power, windows, count_pads=True, divisor=1)
    return mean ** (1 / power)


@rule("GlobalAveragePool")
def average_all(site: Site) -> torch.Tensor:
    x = site.input(0)
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


@rule("GlobalMaxPool")
def take_largest(site: Site) -> torch.Tensor:
    x = site.input(0)
    return x.amax(tuple(range(2, x.dim())), keepdim=True)


@rule("GlobalLpPool")
def power_all(site: Site) -> torch.Tensor:
    x, power = site.input(0), site.number("p", 2)
    return (x.abs() ** power).sum(tuple(range(2, x.dim())), keepdim=True) ** (1 / power)


@rule("MaxUnpool", static=(2,))
def unpool(site: Site) -> torch.Tensor:
    x, places = site.input(0), site.input(1)
    rank = x.dim() - 2
    kernel, strides = site.get("kernel_shape"), site.get("strides", [1] * rank)
    pads = site.get("pads", [0] * (2 * rank))
    sizes = [
        (size - 1) * stride - pads[axis] - pads[axis + rank] + width
        for axis, (size, stride, width) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    inner = [*x.shape[:2], *sizes]  # the places count in the tensor that was pooled
    flat = torch.zeros(math.prod(inner), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1))
    result = flat.reshape(inner)
    wanted = site.numbers(2, "output shape") if site.has(2) else inner
    more = [new - old for new, old in zip(wanted, inner, strict=True)]
    return pad_edges(result, [*[0] * len(more), *more], "constant", 0)


@rule("GridSample")
def sample_grid(site: Site) -> torch.Tensor:
    x, grid = site.input(0), site.input(1)
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(site.get("mode", "bilinear"), site.get("mode", "bilinear"))
    padding = site.get("padding_mode", "zeros")
    return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=bool(site.get("align_corners", 0)))


@rule("AffineGrid", static=(1,))
def affine_grid(site: Site) -> torch.Tensor:
    return F.affine_grid(site.input(0), site.numbers(1, "size"), align_corners=bool(site.get("align_corners", 0)))
