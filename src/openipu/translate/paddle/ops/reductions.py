"""Sums, means, extremes and orders along dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from openipu.translate.paddle.calls import Answer, Call, Translate, make_rules, translates

Reduce = Callable[[torch.Tensor, tuple[int, ...], bool], torch.Tensor]


def _multiply(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def _sum(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    return x.sum(axes, keepdim=keep, dtype=torch.int64 if x.dtype is torch.bool else x.dtype)


_REDUCTIONS: dict[str, Reduce] = {
    "reduce_sum": _sum,
    "reduce_mean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
    "reduce_max": lambda x, axes, keep: x.amax(axes, keepdim=keep),
    "reduce_min": lambda x, axes, keep: x.amin(axes, keepdim=keep),
    "reduce_amax": lambda x, axes, keep: x.amax(axes, keepdim=keep),
    "reduce_amin": lambda x, axes, keep: x.amin(axes, keepdim=keep),
    "reduce_prod": _multiply,
    "reduce_all": lambda x, axes, keep: _multiply_all(x, axes, keep),
    "reduce_any": lambda x, axes, keep: torch.logical_not(_multiply_all(torch.logical_not(x), axes, keep)),
}


def _multiply_all(x: torch.Tensor, axes: tuple[int, ...], keep: bool) -> torch.Tensor:
    x = x.to(torch.bool)
    for axis in sorted(axes, reverse=True):
        x = x.all(axis, keepdim=keep)
    return x


def read_axes(call: Call, x: torch.Tensor, name: str = "dim") -> tuple[int, ...]:
    """Dimensions to reduce; none, or all of them, mean the whole tensor."""
    axes = call.numbers(name, "AxisTensor", "AxisTensorList")
    if call.flag("reduce_all") or not axes:
        return tuple(range(x.dim()))
    return tuple(sorted({axis % max(x.dim(), 1) for axis in axes}))


def _reduce(function: Reduce) -> Translate:
    def compute(call: Call) -> Answer:
        x = call.tensor("X")
        wanted = call.get("out_dtype", -1)
        if isinstance(wanted, int) and wanted >= 0:
            x = x.to(call.dtype("out_dtype"))
        if x.dim() == 0:
            return x.to(torch.bool) if call.op in ("reduce_all", "reduce_any") else x.clone()
        return function(x, read_axes(call, x), call.flag("keep_dim"))

    return compute


RULES = make_rules({op: _reduce(function) for op, function in _REDUCTIONS.items()})


@translates("mean")
def mean(call: Call) -> Answer:
    return call.tensor("X").mean()


@translates("logsumexp")
def logsumexp(call: Call) -> Answer:
    x = call.tensor("X")
    axes = call.numbers("axis", default=[0])
    chosen = tuple(range(x.dim())) if call.flag("reduce_all") or not axes else tuple(axis % x.dim() for axis in axes)
    return torch.logsumexp(x, chosen, keepdim=call.flag("keepdim", call.flag("keep_dim")))


@translates("arg_max", "arg_min")
def find_extreme(call: Call) -> Answer:
    x, keep = call.tensor("X"), call.flag("keepdims")
    axis = call.numbers("axis", "Axis", default=[-1])[0]
    find = torch.argmax if call.op == "arg_max" else torch.argmin
    dtype = call.dtype("dtype", torch.int64)
    if call.flag("flatten"):
        found = find(x.reshape(-1), 0)
        return (found.reshape([1] * x.dim()) if keep else found).to(dtype)
    return find(x, axis, keepdim=keep).to(dtype)


@translates("argsort")
def sort(call: Call) -> Answer:
    values, places = torch.sort(
        call.tensor("X"), dim=call.whole("axis", -1), descending=call.flag("descending"), stable=True
    )
    return {"Out": values, "Indices": places}


@translates("top_k", "top_k_v2")
def take_largest(call: Call) -> Answer:
    x = call.tensor("X")
    count = call.numbers("k", "K", default=[1])[0]
    axis = call.whole("axis", -1)
    values, places = torch.topk(x, count, axis, call.flag("largest", True), call.flag("sorted", True))
    return {"Out": values, "Indices": places}


@translates("cumsum")
def add_up(call: Call) -> Answer:
    x = call.tensor("X")
    if call.flag("flatten"):
        x = x.reshape(-1)
    axis = call.numbers("axis", "AxisTensor", default=[-1])[0] % max(x.dim(), 1)
    backwards = call.flag("reverse")
    if backwards:
        x = torch.flip(x, (axis,))
    total = torch.cumsum(x, axis, dtype=x.dtype)
    if call.flag("exclusive"):
        total = total - x
    return torch.flip(total, (axis,)) if backwards else total


@translates("cumprod")
def multiply_up(call: Call) -> Answer:
    return torch.cumprod(call.tensor("X"), call.whole("dim"))


@translates("p_norm")
def power_norm(call: Call) -> Answer:
    x, order, keep = call.tensor("X"), call.number("porder", 2.0), call.flag("keepdim")
    axis = None if call.flag("asvector") else call.whole("axis", -1)
    return _norm(x, order, axis, keep)


def _norm(x: torch.Tensor, order: float, axis: int | None, keep: bool) -> torch.Tensor:
    axes = tuple(range(x.dim())) if axis is None else (axis,)
    size = x.abs()
    if order == 0:
        return (x != 0).to(x.dtype).sum(axes, keepdim=keep)
    if math.isinf(order):
        return size.amax(axes, keepdim=keep) if order > 0 else size.amin(axes, keepdim=keep)
    if order == 2:
        return (x * x).sum(axes, keepdim=keep).sqrt()
    return (size**order).sum(axes, keepdim=keep) ** (1 / order)


@translates("dist")
def distance(call: Call) -> Answer:
    return _norm(call.tensor("X") - call.tensor("Y"), call.number("p", 2.0), None, False)


@translates("norm")
def normalise(call: Call) -> Answer:
    x, epsilon = call.tensor("X"), call.number("epsilon", 1e-10)
    size = ((x * x).sum(call.whole("axis", -1), keepdim=True) + epsilon).sqrt()
    return {"Out": x / size, "Norm": size}


@translates("frobenius_norm")
def frobenius(call: Call) -> Answer:
    x = call.tensor("X")
    return (x * x).sum(read_axes(call, x), keepdim=call.flag("keep_dim")).sqrt()


@translates("squared_l2_norm")
def squares(call: Call) -> Answer:
    x = call.tensor("X")
    return (x * x).sum().reshape(1)


@translates("dot")
def dot(call: Call) -> Answer:
    return (call.tensor("X") * call.tensor("Y")).sum(-1)
