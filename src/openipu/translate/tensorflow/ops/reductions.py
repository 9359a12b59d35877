"""Reductions, softmax, sorting, cumulative sums."""

from __future__ import annotations

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor


def _read_axes(site: Site, x: Tensor) -> list[int]:
    return sorted({axis % x.dim() for axis in site.numbers(1, "axes")}) if x.dim() else []


@rule("Sum", "Mean", "Max", "Min", "Prod", "Any", "All", "EuclideanNorm", static=(1,))
def reduce(site: Site) -> Tensor:
    x = site.input(0)
    axes, keep = _read_axes(site, x), bool(site.get("keep_dims", False))
    if not axes:
        return x.abs() if site.node.op == "EuclideanNorm" else x.clone()
    match site.node.op:
        case "Sum":
            return x.sum(axes, keepdim=keep, dtype=x.dtype)
        case "Mean" if x.dtype.is_floating_point:
            return x.mean(axes, keepdim=keep)
        case "Mean":
            count = x.numel() // x.sum(axes).numel()
            return torch.div(x.sum(axes, keepdim=keep, dtype=x.dtype), count, rounding_mode="trunc")
        case "Max":
            return x.amax(axes, keepdim=keep)
        case "Min":
            return x.amin(axes, keepdim=keep)
        case "EuclideanNorm":
            return torch.sqrt(torch.square(x).sum(axes, keepdim=keep))
    for axis in reversed(axes):
        match site.node.op:
            case "Prod":
                x = x.prod(axis, keepdim=keep, dtype=x.dtype)
            case "Any":
                x = x.any(axis, keepdim=keep)
            case _:
                x = x.all(axis, keepdim=keep)
    return x


@rule("ArgMax", "ArgMin", static=(1,))
def find_extreme(site: Site) -> Tensor:
    x, axis = site.input(0), site.numbers(1, "axis")[0]
    found = torch.argmax(x, axis) if site.node.op == "ArgMax" else torch.argmin(x, axis)
    return found.to(site.get("output_type", torch.int64))


@rule("Softmax")
def softmax(site: Site) -> Tensor:
    return torch.softmax(site.input(0), -1)


@rule("IpuSoftmaxGrad")
def softmax_gradient(site: Site) -> Tensor:
    """What TensorFlow writes with four ops (`fusing.py`)."""
    gradient, result = site.input(0), site.input(1)
    found: Tensor = torch.ops.aten._softmax_backward_data(gradient, result, -1, result.dtype)
    return found


@rule("LogSoftmax")
def log_softmax(site: Site) -> Tensor:
    return torch.log_softmax(site.input(0), -1)


@rule("L2Loss")
def half_square_sum(site: Site) -> Tensor:
    return torch.square(site.input(0)).sum() / 2


@rule("Cumsum", static=(1,))
def cumulative_sum(site: Site) -> Tensor:
    return _accumulate(site, lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype), 0)


@rule("Cumprod", static=(1,))
def cumulative_product(site: Site) -> Tensor:
    return _accumulate(site, lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype), 1)


def _accumulate(site: Site, run, neutral: int) -> Tensor:  # type: ignore[no-untyped-def]
    x, axis = site.input(0), site.numbers(1, "axis")[0]
    backwards = bool(site.get("reverse", False))
    x = x.flip(axis) if backwards else x
    if site.get("exclusive", False):
        first = torch.full_like(x.narrow(axis, 0, 1), neutral)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    found: Tensor = run(x, axis)
    return found.flip(axis) if backwards else found


@rule("TopKV2", static=(1,))
def top_k(site: Site) -> list[Tensor]:
    values, places = torch.topk(site.input(0), site.numbers(1, "k")[0], sorted=True)
    return [values, places.to(torch.int32)]


@rule("InTopKV2", "InTopK")
def in_top_k(site: Site) -> Tensor:
    scores, targets = site.input(0), site.input(1).to(torch.int64)
    own = scores.gather(1, targets.unsqueeze(1))
    count = site.numbers(2, "k")[0] if site.has(2) else int(site.get("k"))
    return ((scores > own).sum(1) < count) & torch.isfinite(own.squeeze(1))
