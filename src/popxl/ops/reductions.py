"""Ops that reduce dimensions, and orders along them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

from popart import popart_exception
from popxl import dtypes
from popxl._ir.operation import SHAPES, VALUES, Rule, make_op
from popxl.ops.utils import check_in_graph, handle_negative_axis, list_axes, make_one, memory
from popxl.tensor import Tensor

Axis = int | Sequence[int] | None
_sum, _max, _min, _abs = sum, max, min, abs


def _reduce(
    kind: str, run: Callable[[Any, list[int], bool], Any], t: Tensor, axis: Axis, keepdims: bool, rule: Rule
) -> Tensor:
    from popxl.context import gcg

    check_in_graph(gcg(), t=t)
    axes = list_axes(t, axis)
    return make_one(kind, lambda x: run(x, axes, keepdims) if axes else run(x.reshape(1), [0], False), [t], rule=rule)


def sum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; over all where none is given."""
    return _reduce("ReduceSum", lambda x, d, k: torch.sum(x, d, k, dtype=x.dtype), t, axis, keepdims, SHAPES)


def mean(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes."""
    return _reduce("ReduceMean", torch.mean, t, axis, keepdims, SHAPES)


def max(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest over axes."""
    return _reduce("ReduceMax", torch.amax, t, axis, keepdims, VALUES)


def min(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest over axes."""
    return _reduce("ReduceMin", torch.amin, t, axis, keepdims, VALUES)


def prod(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over axes."""

    def run(x: Any, axes: list[int], keep: bool) -> Any:
        for entry in sorted(axes, reverse=True):
            x = torch.prod(x, entry, keep, dtype=x.dtype)
        return x

    return _reduce("ReduceProd", run, t, axis, keepdims, VALUES)


def l1(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum of absolute values."""
    return _reduce("ReduceL1", lambda x, d, k: torch.sum(torch.abs(x), d, k), t, axis, keepdims, VALUES)


def l2(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The root of the sum of squares."""
    return _reduce("ReduceL2", lambda x, d, k: torch.sqrt(torch.sum(x * x, d, k)), t, axis, keepdims, VALUES)


def sumsquare(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum of squares."""
    return _reduce("ReduceSumSquare", lambda x, d, k: torch.sum(x * x, d, k), t, axis, keepdims, VALUES)


def logsum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum."""
    return _reduce("ReduceLogSum", lambda x, d, k: torch.log(torch.sum(x, d, k)), t, axis, keepdims, VALUES)


def logsumexp(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials."""
    return _reduce("ReduceLogSumExp", torch.logsumexp, t, axis, keepdims, VALUES)


def median(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The median; of an even number of elements, the lower one."""

    def run(x: Any, axes: list[int], keep: bool) -> Any:
        kept = [place for place in range(x.dim()) if place not in axes]
        flat = x.permute([*kept, *axes]).flatten(len(kept))
        found = torch.median(flat, -1).values
        return found.reshape([1 if place in axes else size for place, size in enumerate(x.shape)]) if keep else found

    return _reduce("ReduceMedian", run, t, axis, keepdims, VALUES)


def lamb_square(t: Tensor) -> Tensor:
    """The sum of squares in float32, before its root is taken."""
    return make_one("LambSquare", lambda x: torch.sum(x.float() * x.float()), [t])


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Where the largest element of a dimension is."""
    return make_one("ArgMax", lambda x: torch.argmax(x, dim, keepdim).to(torch.int32), [t])


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Where the smallest element of a dimension is."""
    return make_one("ArgMin", lambda x: torch.argmin(x, dim, keepdim).to(torch.int32), [t])


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Sums from the first element of a dimension on."""
    return make_one("CumSum", lambda x: torch.cumsum(x, dim, dtype=x.dtype), [t], rule=SHAPES)


def topk(
    t: Tensor, k: int, axis: int, largest: bool, sorted: bool, available_memory_proportion: float | None = None
) -> tuple[Tensor, Tensor]:
    """The `k` largest or smallest elements of an axis, and where they are."""
    place = handle_negative_axis(t, axis)
    if not 0 < k <= t.shape[place]:
        raise popart_exception(f"TopK: k is {k}, and axis {axis} of {t} has {t.shape[place]} elements.")

    def run(x: Any) -> Any:
        values, indices = torch.topk(x, k, place, largest, sorted)
        return values, indices.to(torch.int32)

    def differentiate(gradients: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
        zeros = torch.zeros(t.shape, dtype=gradients[0].dtype)
        return [zeros.scatter_add(place, outputs[1].long(), gradients[0])]

    found = make_op(
        "TopK",
        run,
        [t],
        rule=Rule(inputs=(), outputs=(1,), formula=differentiate),
        dtypes=[t.dtype, dtypes.int32],
        attributes=memory(available_memory_proportion),
    )
    return found[0], found[1]


def histogram(t: Tensor, levels: list[float], absolute_of_input: bool) -> Tensor:
    """How many elements lie below the first level, between each two, and from the last on."""
    if any(first >= second for first, second in pairwise(levels)):
        raise ValueError(f"`levels` go upwards from the first to the last, and these do not: {levels}.")

    def run(x: Any) -> Any:
        values = (torch.abs(x) if absolute_of_input else x).reshape(-1, 1)
        above = (values >= torch.tensor(levels, dtype=x.dtype)).sum(0, dtype=torch.int32)
        whole = torch.full((1,), x.numel(), dtype=torch.int32)
        ends = torch.cat([whole, above])
        return ends - torch.cat([above, torch.zeros(1, dtype=torch.int32)])

    return make_one("Histogram", run, [t], specs=[((len(levels) + 1,), dtypes.uint32)])
