"""Ops that sample images: at other sizes, and in regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from openipu.translate import ResizeAxis, Sampling, resize
from popart import popart_exception
from popxl._ir.operation import Rule
from popxl.ops.utils import check_tensor_ipu_and_tile_set, make_one
from popxl.tensor import Tensor

InterpolateType = Literal["nearest", "linear", "cubic"]
_MODES = {
    "interpolate type": ("nearest", "linear", "cubic"),
    "interpolate nearest type": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "interpolate coordinate transformation type": (
        *("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"),
    ),
}


def _check(what: str, mode: str) -> None:
    if mode not in _MODES[what]:
        *first, last = _MODES[what]
        raise ValueError(f"{what} is one of {', '.join(first)} and {last}, not {mode!r}.")


def interpolate(
    t: Tensor,
    scale_factor: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    mode: InterpolateType = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """A tensor whose dimensions are so many times as large."""
    _check("interpolate type", mode)
    _check("interpolate nearest type", nearest_mode)
    _check("interpolate coordinate transformation type", coordinate_transformation_mode)
    if len(scale_factor) != t.rank:
        raise popart_exception(f"Resize: {t} has {t.rank} dimensions, and there are {len(scale_factor)} factors.")
    axes = [
        ResizeAxis(axis, size, int(size * scale), float(scale))
        for axis, (size, scale) in enumerate(zip(t.shape, scale_factor, strict=True))
        if scale != 1
    ]
    chosen = Sampling(mode, coordinate_transformation_mode, nearest_mode)
    shape = tuple(int(size * scale) for size, scale in zip(t.shape, scale_factor, strict=True))
    return make_one("Resize", lambda x: resize(x, axes, chosen), [t], rule=Rule(inputs=()), specs=[(shape, t.dtype)])


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """Regions of images, each at one size: means of samples between the pixels. A region: left, top, right, bottom."""
    check_tensor_ipu_and_tile_set(t=t, rois=rois, batch_index=batch_index)
    if sampling_ratio < 1:
        raise popart_exception("RoiAlign: the sampling ratio has to be 1 or more.")
    height, width = output_size

    def run(x: Any, regions: Any, which: Any) -> Any:
        corners = regions * spatial_scale
        spans = torch.clamp(corners[:, 2:] - corners[:, :2], min=1.0)
        images = torch.index_select(x, 0, which.long())
        rows = _weigh(corners[:, 1:2], spans[:, 1:2], height, sampling_ratio, x.shape[2], x.dtype)
        columns = _weigh(corners[:, 0:1], spans[:, 0:1], width, sampling_ratio, x.shape[3], x.dtype)
        found = torch.matmul(torch.matmul(rows[:, None], images), columns[:, None].transpose(-1, -2))
        return found.reshape(*found.shape[:2], height, sampling_ratio, width, sampling_ratio).mean((3, 5))

    return make_one("RoiAlign", run, [t, rois, batch_index], rule=Rule(inputs=(1, 2)))


def _weigh(start: Any, span: Any, count: int, ratio: int, size: int, dtype: torch.dtype) -> Any:
    """The shares of a dimension's elements in each sample of a region: [region, sample, element]."""
    places = start + (torch.arange(count * ratio) + 0.5) / ratio * (span / count)
    inside = (places >= -1.0) & (places <= size)
    held = torch.clamp(places, 0.0, size - 1.0)
    low = torch.floor(held)
    share = (held - low)[..., None]
    low = low[..., None]
    elements = torch.arange(size)
    weights = (elements == low) * (1 - share) + (elements == torch.clamp(low + 1, max=size - 1)) * share
    return (weights * inside[..., None]).to(dtype)
