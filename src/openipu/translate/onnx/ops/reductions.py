"""Reductions, softmax and searches along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from openipu.translate.rules import Results, Rule, rule
from openipu.translate.site import Site

Reduce = Callable[[torch.Tensor, tuple[int, ...], bool], torch.Tensor]


def _add(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return x.sum(axes, keepdim=keep, dtype=x.dtype)


def _multiply(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


def _average(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    if x.dtype.is_floating_point:
        return x.mean(axes, keepdim=keep)
    count = math.prod(x.shape[axis] for axis in axes)
    return torch.div(_add(x, axes, keep), count, rounding_mode="trunc")


def _find_largest(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    if any(x.shape[axis] == 0 for axis in axes):
        return _fill_reduced(x, axes, keep, _smallest_number(x.dtype))
    return x.amax(axes, keepdim=keep)


def _find_smallest(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    if any(x.shape[axis] == 0 for axis in axes):
        return _fill_reduced(x, axes, keep, _largest_number(x.dtype))
    return x.amin(axes, keepdim=keep)


def _fill_reduced(x: torch.Tensor, axes: tuple[int, ...], keep: bool, value: float) -> torch.Tensor:
    sizes = [1 if place in axes else size for place, size in enumerate(x.shape) if keep or place not in axes]
    return torch.full(sizes, value, dtype=x.dtype)


def _smallest_number(dtype: torch.dtype) -> float:
    return -math.inf if dtype.is_floating_point else 0 if dtype is torch.bool else torch.iinfo(dtype).min


def _largest_number(dtype: torch.dtype) -> float:
    return math.inf if dtype.is_floating_point else 1 if dtype is torch.bool else torch.iinfo(dtype).max


_REDUCTIONS: dict[str, Reduce] = {
    "ReduceSum": _add,
    "ReduceProd": _multiply,
    "ReduceMean": _average,
    "ReduceMax": _find_largest,
    "ReduceMin": _find_smallest,
    "ReduceL1": lambda x, axes, keep: _add(x.abs(), axes, keep),
    "ReduceL2": lambda x, axes, keep: _root(_add(x * x, axes, keep)),
    "ReduceSumSquare": lambda x, axes, keep: _add(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: torch.log(_add(x, axes, keep)),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
}
_BY_TENSOR_SINCE = {"ReduceSum": 13}


def _root(x: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(x) if x.dtype.is_floating_point else torch.sqrt(x.double()).to(x.dtype)


def _reduce(site: Site, function: Reduce, axes: Sequence[int] | None) -> torch.Tensor:
    x, keep = site.input(0), bool(site.get("keepdims", 1))
    if not axes and site.get("noop_with_empty_axes", 0):
        return function(x.unsqueeze(0), (0,), False)  # only what the op does to single elements
    for axis in axes or ():
        if not -x.dim() <= axis < x.dim():
            site.fail(f"reduces axis {axis}, and its input has {x.dim()} dimensions")
    places = tuple(range(x.dim())) if not axes else tuple(sorted({axis % x.dim() for axis in axes}))
    return function(x, places, keep) if places else function(x.unsqueeze(0), (0,), False)


def _by_attribute(function: Reduce) -> Callable[[Site], torch.Tensor]:
    return lambda site: _reduce(site, function, site.get("axes", None))


def _by_tensor(function: Reduce) -> Callable[[Site], torch.Tensor]:
    return lambda site: _reduce(site, function, site.numbers(1, "axes") if site.has(1) else None)


RULES = [
    entry
    for op, function in _REDUCTIONS.items()
    for entry in (
        Rule(op, _by_attribute(function), until=_BY_TENSOR_SINCE.get(op, 18) - 1),
        Rule(op, _by_tensor(function), since=_BY_TENSOR_SINCE.get(op, 18), static=(1,)),
    )
]


@rule("ArgMax", "ArgMin")
def find_extreme(site: Site) -> torch.Tensor:
    x, axis, keep = site.input(0), int(site.get("axis", 0)), bool(site.get("keepdims", 1))
    search = torch.argmax if site.node.op == "ArgMax" else torch.argmin
    if not site.get("select_last_index", 0):
        return search(x, dim=axis, keepdim=keep)
    return x.shape[axis] - 1 - search(torch.flip(x, (axis,)), dim=axis, keepdim=keep)


@rule("Softmax", "LogSoftmax", "Hardmax", until=12)
def soften_rest(site: Site) -> torch.Tensor:
    """Before operator set 13 all dimensions from the axis on were one."""
    x, axis = site.input(0), site.get("axis", 1)
    axis = axis % max(x.dim(), 1)
    flat = x.reshape(math.prod(x.shape[:axis]), -1)
    return _soften(site.node.op, flat, 1).reshape(x.shape)


@rule("Softmax", "LogSoftmax", "Hardmax", since=13)
def soften(site: Site) -> torch.Tensor:
    return _soften(site.node.op, site.input(0), site.get("axis", -1))


def _soften(op: str, x: torch.Tensor, axis: int) -> torch.Tensor:
    if op == "Softmax":
        return torch.softmax(x, axis)
    if op == "LogSoftmax":
        return torch.log_softmax(x, axis)
    places = torch.arange(x.shape[axis]).reshape([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])
    return (torch.argmax(x, dim=axis, keepdim=True) == places).to(x.dtype)


@rule("TopK", until=9)
def top_by_attribute(site: Site) -> Results:
    return _find_top(site, site.get("k"))


@rule("TopK", since=10, static=(1,))
def top_by_tensor(site: Site) -> Results:
    return _find_top(site, site.numbers(1, "k")[0])


def _find_top(site: Site, count: int) -> Results:
    x, axis = site.input(0), site.get("axis", -1)
    largest = bool(site.get("largest", 1))
    if not 0 <= count <= x.shape[axis]:
        site.fail(f"takes {count} of {x.shape[axis]} elements")
    # Of equal elements the one with the lower index comes first, which topk does not promise.
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


@rule("LpNormalization")
def normalise(site: Site) -> torch.Tensor:
    x, axis = site.input(0), site.get("axis", -1)
    length = x.abs().sum(axis, keepdim=True) if site.get("p", 2) == 1 else torch.sqrt((x * x).sum(axis, keepdim=True))
    return torch.where(length == 0, torch.zeros_like(x), x / length)


@rule("MeanVarianceNormalization")
def standardise(site: Site) -> torch.Tensor:
    x, axes = site.input(0), tuple(site.get("axes", [0, 2, 3]))
    mean = x.mean(axes, keepdim=True)
    variance = (x * x).mean(axes, keepdim=True) - mean * mean
    return (x - mean) / (torch.sqrt(variance) + 1e-9)
