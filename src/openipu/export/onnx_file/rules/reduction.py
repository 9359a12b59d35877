"""Reductions, orders and normalised exponentials.

In: sites. Out: ONNX's ops; axes are inputs, as opset 18 has them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from openipu.export.onnx_file.site import Rule, Rules, Site
from openipu.export.onnx_file.writer import Value


def list_axes(rank: int, given: Any) -> list[int]:
    """Axes as counted from the front; none given means all."""
    if given is None or (isinstance(given, Sequence) and not given):
        return list(range(rank))
    listed = given if isinstance(given, Sequence) else [given]
    return [axis % max(1, rank) for axis in listed]


def reduce(site: Site, op: str, value: Value, axes: Sequence[int], keep: bool) -> Value:
    """One of ONNX's reductions."""
    if value.rank == 0:
        return value
    kept = [1 if axis in axes else size for axis, size in enumerate(value.shape)]
    shape = kept if keep else [size for axis, size in enumerate(value.shape) if axis not in axes]
    return site.make(op, [value, site.whole(axes)], shape, value.dtype, keepdims=int(keep))


def _reduce(op: str) -> Rule:
    def rule(site: Site) -> Value:
        value = site.cast(site.source, site.dtype)
        axes = list_axes(value.rank, site.arguments.get("dim"))
        return reduce(site, op, value, axes, bool(site.arguments.get("keepdim", False)))

    return rule


def _truth(op: str) -> Rule:
    def rule(site: Site) -> Value:
        value = site.cast(site.cast(site.source, torch.bool), torch.int32)
        axes = list_axes(value.rank, site.arguments.get("dim"))
        return site.cast(reduce(site, op, value, axes, bool(site.arguments.get("keepdim", False))), site.dtype)

    return rule


def _variance(site: Site) -> Value:
    return _spread(site)[0]


def _deviation(site: Site) -> Value:
    return site.like("Sqrt", _spread(site)[0])


def _variance_and_mean(site: Site) -> tuple[Value, Value]:
    return _spread(site)


def _spread(site: Site) -> tuple[Value, Value]:
    value = site.cast(site.source, site.dtype)
    axes = list_axes(value.rank, site.arguments.get("dim"))
    keep = bool(site.arguments.get("keepdim", False))
    mean = reduce(site, "ReduceMean", value, axes, True)
    apart = site.like("Sub", value, mean)
    total = reduce(site, "ReduceSumSquare", apart, axes, keep)
    correction = site.arguments.get("correction")
    if correction is None:
        correction = int(site.arguments.get("unbiased", True))
    count = math.prod(value.shape[axis] for axis in axes)
    variance = site.like("Div", total, site.number(count - correction, site.dtype))
    return variance, site.reshape(mean, variance.shape)


def _arg(op: str) -> Rule:
    def rule(site: Site) -> Value:
        value, axis = site.source, site.arguments.get("dim")
        if axis is None:
            value, axis = site.reshape(value, [math.prod(value.shape)]), 0
            found = site.make(op, [value], [], torch.int64, axis=0, keepdims=0)
            return site.reshape(found, site.shape)
        return site.emit(op, value, axis=axis % value.rank, keepdims=int(site.keepdim))

    return rule


def _extreme(op: str, arg: str) -> Rule:
    """max and min along an axis: values and places."""

    def rule(site: Site) -> tuple[Value | None, ...]:
        axis = site.dim % max(1, site.source.rank)
        values = reduce(site, op, site.source, [axis], bool(site.keepdim))
        if 1 not in site.used:
            return values, None
        shape = tuple(site.results[1].shape)
        return values, site.make(arg, [site.source], shape, torch.int64, axis=axis, keepdims=int(site.keepdim))

    return rule


def _topk(site: Site) -> tuple[Value, ...]:
    return _order(site, site.k, site.largest, site.sorted)


def _sort(site: Site) -> tuple[Value, ...]:
    axis = site.dim % max(1, site.source.rank)
    return _order(site, site.source.shape[axis], site.descending, True)


def _order(site: Site, count: int, largest: bool, in_order: bool) -> tuple[Value, ...]:
    axis = site.dim % max(1, site.source.rank)
    results = [(result.shape, result.dtype) for result in site.results]
    return site.writer.add(
        "TopK", [site.source, site.whole([count])], results, axis=axis, largest=int(largest), sorted=int(in_order)
    )


def _cumulate(site: Site) -> Value:
    return site.emit("CumSum", site.cast(site.source, site.dtype), site.number(site.dim, torch.int64))


def _softmax(op: str) -> Rule:
    return lambda site: site.emit(op, site.cast(site.source, site.dtype), axis=site.dim)


def _softmax_gradient(site: Site) -> Value:
    """(g - sum(g y)) y"""
    gradient, output = site.grad_output, site.output
    product = site.like("Mul", gradient, output)
    total = reduce(site, "ReduceSum", product, [site.dim % output.rank], True)
    return site.cast(site.like("Sub", product, site.like("Mul", output, total)), site.dtype)


def _log_softmax_gradient(site: Site) -> Value:
    """g - exp(y) sum(g)"""
    gradient, output = site.grad_output, site.output
    total = reduce(site, "ReduceSum", gradient, [site.dim % output.rank], True)
    return site.cast(site.like("Sub", gradient, site.like("Mul", site.like("Exp", output), total)), site.dtype)


def _norm(site: Site) -> Value:
    value = site.cast(site.source, site.dtype)
    order = site.arguments.get("ord", site.arguments.get("p", 2))
    axes = list_axes(value.rank, site.arguments.get("dim"))
    keep = bool(site.arguments.get("keepdim", False))
    if order is None or order == 2:
        return reduce(site, "ReduceL2", value, axes, keep)
    if order == 1:
        return reduce(site, "ReduceL1", value, axes, keep)
    if math.isinf(order):
        return reduce(site, "ReduceMax" if order > 0 else "ReduceMin", site.like("Abs", value), axes, keep)
    raised = site.like("Pow", site.like("Abs", value), site.number(order, site.dtype))
    total = reduce(site, "ReduceSum", raised, axes, keep)
    return site.like("Pow", total, site.number(1 / order, site.dtype))


RULES: Rules = {
    "aten.sum": _reduce("ReduceSum"),
    "aten.mean": _reduce("ReduceMean"),
    "aten.prod": _reduce("ReduceProd"),
    "aten.amax": _reduce("ReduceMax"),
    "aten.amin": _reduce("ReduceMin"),
    "aten.max.default": _reduce("ReduceMax"),
    "aten.min.default": _reduce("ReduceMin"),
    "aten.logsumexp": _reduce("ReduceLogSumExp"),
    "aten.any": _truth("ReduceMax"),
    "aten.all": _truth("ReduceMin"),
    "aten.var": _variance,
    "aten.std": _deviation,
    "aten.var_mean": _variance_and_mean,
    "aten.argmax": _arg("ArgMax"),
    "aten.argmin": _arg("ArgMin"),
    "aten.max.dim": _extreme("ReduceMax", "ArgMax"),
    "aten.min.dim": _extreme("ReduceMin", "ArgMin"),
    "aten.topk": _topk,
    "aten.sort": _sort,
    "aten.cumsum": _cumulate,
    "aten._softmax": _softmax("Softmax"),
    "aten._log_softmax": _softmax("LogSoftmax"),
    "aten._softmax_backward_data": _softmax_gradient,
    "aten._log_softmax_backward_data": _log_softmax_gradient,
    "aten.linalg_vector_norm": _norm,
    "aten.norm": _norm,
}
