"""`Resize`, `Upsample` and `RoiAlign`."""

from __future__ import annotations

import numpy as np
import torch

from openipu.capture import is_on_ipu
from openipu.translate.kit.resize import Axis, Sampling, resize
from openipu.translate.rules import rule
from openipu.translate.site import Site

PYTORCH = "pytorch"


@rule("Upsample", until=8)
def upsample_by_attribute(site: Site) -> torch.Tensor:
    return _scale(site, site.get("scales"), Sampling(_read_mode(site), "asymmetric", "floor"))


@rule("Upsample", since=9, static=(1,))
@rule("Resize", since=10, until=10, static=(1,))
def upsample(site: Site) -> torch.Tensor:
    scales = [float(number) for number in site.value(1, "scales").flatten().tolist()]
    rounding = str(site.get("nearest_mode", PYTORCH))  # of PopART, which has newer attributes in older operator sets
    coordinates = "half_pixel" if "nearest_mode" in site.node.attributes else "asymmetric"
    return _scale(site, scales, _sample(_read_mode(site), coordinates, rounding))


def _sample(mode: str, coordinates: str, rounding: str) -> Sampling:
    """PyTorch's own nearest neighbour, which PopART has a name for, knows no other coordinates."""
    if mode == "nearest" and rounding == PYTORCH:
        return Sampling(mode, "asymmetric", "floor")
    return Sampling(mode, coordinates, rounding)


def round_size(size: int, scale: float) -> int:
    """The new size, reckoned in the format of scales: 6 * 5 / 6 is 5."""
    return int(np.float32(scale) * np.float32(size))


def _read_mode(site: Site) -> str:
    mode = str(site.get("mode", "nearest"))
    return {"bilinear": "linear"}.get(mode, mode)


def _scale(site: Site, scales: list[float], sampling: Sampling) -> torch.Tensor:
    x = site.input(0)
    if len(scales) != x.dim():
        site.fail(f"has {len(scales)} scales for a tensor of {x.dim()} dimensions")
    axes = [
        Axis(axis, size, round_size(size, scale), scale)
        for axis, (size, scale) in enumerate(zip(x.shape, scales, strict=True))
        if scale != 1
    ]
    return resize(x, axes, sampling).to(x.dtype)


def _list_choice(site: Site, coordinates: str) -> tuple[str, str, str]:
    chosen = _sample(site.get("mode", "nearest"), coordinates, site.get("nearest_mode", "round_prefer_floor"))
    return chosen.mode, chosen.coordinates, chosen.nearest


@rule("Resize", since=11, static=(1, 2, 3))
def resize_image(site: Site) -> torch.Tensor:
    x = site.input(0)
    given = site.get("axes", None)
    axes = list(range(x.dim())) if given is None else [axis % x.dim() for axis in given]
    coordinates = site.get("coordinate_transformation_mode", "half_pixel")
    outside = site.get("extrapolation_value", 0.0) if coordinates == "tf_crop_and_resize" else None
    sampling = Sampling(
        *_list_choice(site, coordinates),
        site.get("cubic_coeff_a", -0.75),
        bool(site.get("exclude_outside", 0)),
        bool(site.get("antialias", 0)),
        outside,
    )
    found = resize(x, _read_axes(site, x, axes, coordinates == "tf_crop_and_resize"), sampling)
    return found.to(x.dtype)


def _read_axes(site: Site, x: torch.Tensor, axes: list[int], crops: bool) -> list[Axis]:
    region = [0.0] * len(axes) + [1.0] * len(axes)
    if crops:
        region = [float(number) for number in site.value(1, "region").flatten().tolist()]
    if site.has(2) and site.input(2).numel():
        scales = [float(number) for number in site.value(2, "scales").flatten().tolist()]
        results = [round_size(x.shape[axis], scale) for axis, scale in zip(axes, scales, strict=True)]
    else:
        results = site.numbers(3, "sizes")
        scales = [result / x.shape[axis] for axis, result in zip(axes, results, strict=True)]
        policy = site.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            scale = min(scales) if policy == "not_larger" else max(scales)
            scales = [scale] * len(axes)
            results = [int(x.shape[axis] * scale + 0.5) for axis in axes]
    half = len(axes)
    return [
        Axis(axis, x.shape[axis], results[place], scales[place], region[place], region[place + half])
        for place, axis in enumerate(axes)
        if scales[place] != 1 or results[place] != x.shape[axis] or crops
    ]


@rule("RoiAlign")
def align_regions(site: Site) -> torch.Tensor:
    x, regions, batches = site.input(0), site.input(1), site.input(2)
    height, width = site.get("output_height", 1), site.get("output_width", 1)
    ratio = site.get("sampling_ratio", 0)
    half = site.version >= 16 and site.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if ratio <= 0 and is_on_ipu(regions):
        site.fail("chooses the number of samples by the size of each region: give it a sampling_ratio above 0")
    offset = 0.5 if half else 0.0
    corners = regions * site.get("spatial_scale", 1.0) - offset
    spans = corners[:, 2:] - corners[:, :2]
    if not half:
        spans = torch.clamp(spans, min=1.0)
    images = x.index_select(0, batches.to(torch.int64))
    if ratio > 0:
        return _sample_regions(site, images, corners, spans, height, width, ratio, ratio)
    parts = [
        _sample_regions(
            site,
            images[number : number + 1],
            corners[number : number + 1],
            spans[number : number + 1],
            height,
            width,
            max(1, int(torch.ceil(spans[number, 1] / height))),
            max(1, int(torch.ceil(spans[number, 0] / width))),
        )
        for number in range(regions.shape[0])
    ]
    return torch.cat(parts)


def _sample_regions(
    site: Site,
    images: torch.Tensor,
    corners: torch.Tensor,
    spans: torch.Tensor,
    height: int,
    width: int,
    rows: int,
    columns: int,
) -> torch.Tensor:
    """Samples in a grid over each region, averaged or maximised over the samples of each result."""
    down = (torch.arange(height * rows) + 0.5) / rows
    across = (torch.arange(width * columns) + 0.5) / columns
    y = corners[:, 1:2] + down * (spans[:, 1:2] / height)
    x = corners[:, 0:1] + across * (spans[:, 0:1] / width)
    by_row = _interpolate(y, images.shape[2], images.dtype)
    by_column = _interpolate(x, images.shape[3], images.dtype)
    count, channels = images.shape[:2]
    if site.get("mode", "avg") == "avg":
        found = torch.matmul(torch.matmul(by_row[:, None], images), by_column[:, None].transpose(-1, -2))
        return found.reshape(count, channels, height, rows, width, columns).mean((3, 5))
    # The largest of the four weighted neighbours of each sample, as ONNX has it.
    weighted = by_row[:, None, :, None, :, None] * by_column[:, None, None, :, None, :]
    values = (images[:, :, None, None] * weighted).amax((-1, -2))
    return values.reshape(count, channels, height, rows, width, columns).amax((3, 5))


def _interpolate(places: torch.Tensor, size: int, dtype: torch.dtype) -> torch.Tensor:
    """The shares of a dimension's elements at places between them, none at places outside: [region, place, size]."""
    inside = (places >= -1.0) & (places <= size)
    held = torch.clamp(places, min=0.0)
    low = torch.clamp(torch.floor(held), max=size - 1)
    high = torch.clamp(low + 1, max=size - 1)
    held = torch.where(low >= size - 1, low, held)
    share = held - low
    elements = torch.arange(size)
    weights = (elements == low[..., None]) * (1 - share)[..., None] + (elements == high[..., None]) * share[..., None]
    return (weights * inside[..., None]).to(dtype)
