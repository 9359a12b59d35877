"""Pooling and resampling of images."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.kit.pooling import Windows, average_windows, find_largest
from openipu.translate.kit.resize import Axis, Sampling, resize
from openipu.translate.paddle.calls import Answer, Call, translates
from openipu.translate.paddle.ops.products import from_channel_first, read_pads, to_channel_first


@translates("pool2d", "pool3d", "max_pool2d_with_index")
def pool(call: Call) -> Answer:
    x = to_channel_first(call, call.tensor("X"))
    result, places = _pool(call, x)
    if places is not None:
        plane = x.shape[-1] * x.shape[-2]
        return {"Out": result, "Mask": (places % plane).to(torch.int32)}
    return from_channel_first(call, result)


def _pool(call: Call, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    rank = x.dim() - 2
    largest = call.op == "max_pool2d_with_index" or call.get("pooling_type", "max") == "max"
    kernel = call.numbers("ksize", "KSize")
    wants_places = call.op == "max_pool2d_with_index"
    axes = tuple(range(2, x.dim()))
    if call.flag("global_pooling") or (call.flag("adaptive") and all(size == 1 for size in kernel)):
        if not wants_places:
            return (x.amax(axes, keepdim=True) if largest else x.mean(axes, keepdim=True)), None
        kernel = list(x.shape[2:])
    elif call.flag("adaptive"):
        return _pool_adaptive(x, kernel, largest), None
    strides = call.numbers("strides", default=[1] * rank)
    ones = [1] * rank
    pads = [0] * (2 * rank)
    if not call.flag("global_pooling"):
        pads = read_pads(call, list(x.shape[2:]), kernel, strides, ones)
    windows = Windows(kernel, strides, ones, pads, call.flag("ceil_mode"))
    if largest:
        return find_largest(x, windows, places=wants_places)
    return average_windows(x, windows, count_pads=not call.flag("exclusive", True)), None


def _pool_adaptive(x: torch.Tensor, sizes: list[int], largest: bool) -> torch.Tensor:
    if len(sizes) == 2:
        return F.adaptive_max_pool2d(x, sizes) if largest else F.adaptive_avg_pool2d(x, (sizes[0], sizes[1]))
    whole = (sizes[0], sizes[1], sizes[2])
    return F.adaptive_max_pool3d(x, whole) if largest else F.adaptive_avg_pool3d(x, whole)


_METHODS = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


@translates(
    *("nearest_interp_v2", "linear_interp_v2", "bilinear_interp_v2", "trilinear_interp_v2", "bicubic_interp_v2"),
    *("nearest_interp", "bilinear_interp"),
)
def interpolate(call: Call) -> Answer:
    x = to_channel_first(call, call.tensor("X"))
    rank = x.dim() - 2
    method = _METHODS.get(str(call.get("interp_method", call.op.partition("_")[0])))
    if method is None:
        call.fail(f"has the unknown method {call.get('interp_method')!r}")
    sizes, scales = _read_sizes(call, x, rank)
    corners = call.flag("align_corners", True)
    mode = "align_corners" if corners else "half_pixel"
    if not corners and (method == "nearest" or (call.whole("align_mode", 1) == 1 and method == "linear")):
        mode = "asymmetric"
    nearest = "round_prefer_ceil" if corners else "floor"
    axes = [
        Axis(place + 2, x.shape[place + 2], size, size / x.shape[place + 2] if not scales else scales[place])
        for place, size in enumerate(sizes)
    ]
    if mode in ("align_corners",):
        axes = [Axis(entry.axis, entry.size, entry.result, entry.result / entry.size) for entry in axes]
    sampling = Sampling(mode=method, coordinates=mode, nearest=nearest)
    return from_channel_first(call, resize(x, axes, sampling))


def _read_sizes(call: Call, x: torch.Tensor, rank: int) -> tuple[list[int], list[float]]:
    if call.has("SizeTensor") or call.has("OutSize"):
        sizes = call.numbers("out_w", "SizeTensor", "OutSize")
        call.site.check_size(sizes)
        return sizes, []
    scales = [float(number) for number in (call.get("scale") or [])] if isinstance(call.get("scale"), list) else []
    if call.has("Scale"):
        scales = [float(number) for number in call.site.value(1, "scale").reshape(-1).tolist()]
    if scales:
        scales = scales * rank if len(scales) == 1 else scales
        sizes = [int(size * scale) for size, scale in zip(x.shape[2:], scales, strict=True)]
        call.site.check_size(sizes)
        return sizes, scales
    names = ("out_d", "out_h", "out_w")[3 - rank :]
    sizes = [call.whole(name) for name in names]
    call.site.check_size(sizes)
    return sizes, []
