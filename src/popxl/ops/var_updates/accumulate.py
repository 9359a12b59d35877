"""Accumulators: tensors to which something is added in place. What is added takes the accumulator's format."""

from __future__ import annotations

from typing import Any

from popxl.ops.utils import handle_negative_axis
from popxl.ops.var_updates.values import update
from popxl.tensor import Tensor


def _as(value: Any, like: Any) -> Any:
    return value.to(like.dtype) if hasattr(value, "to") else value


def accumulate_(t: Tensor, X: Tensor, f: float | Tensor | None = None) -> Tensor:  # noqa: N803
    """t + f X."""

    def run(total: Any, x: Any, f: Any) -> Any:
        added = _as(x, total)
        return total + (added if f is None else added * _as(f, total))

    return update("Accumulate", run, {"t": t, "X": X}, {"f": f})


def accumulate_square_(t: Tensor, X: Tensor, f: float | Tensor = 1.0) -> Tensor:  # noqa: N803
    """t + f X²."""

    def run(total: Any, x: Any, f: Any) -> Any:
        added = _as(x, total)
        return total + added * added * _as(f, total)

    return update("AccumulateSquare", run, {"t": t, "X": X}, {"f": f})


def accumulate_mean_(t: Tensor, X: Tensor, step: float | Tensor) -> Tensor:  # noqa: N803
    """The mean of `step` values and one more."""

    def run(total: Any, x: Any, step: Any) -> Any:
        share = 1.0 / (step + 1.0)
        return total * _as(1.0 - share, total) + _as(x, total) * _as(share, total)

    return update("AccumulateMean", run, {"t": t, "X": X}, {"step": step})


def accumulate_moving_average_(t: Tensor, X: Tensor, f: float | Tensor) -> Tensor:  # noqa: N803
    """f t + (1 - f) X."""

    def run(total: Any, x: Any, f: Any) -> Any:
        return total * _as(f, total) + _as(x, total) * _as(1.0 - f, total)

    return update("AccumulateMovingAverage", run, {"t": t, "X": X}, {"f": f})


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: float | Tensor) -> Tensor:  # noqa: N803
    """f t + (1 - f) X²."""

    def run(total: Any, x: Any, f: Any) -> Any:
        added = _as(x, total)
        return total * _as(f, total) + added * added * _as(1.0 - f, total)

    return update("AccumulateMovingAverageSquare", run, {"t": t, "X": X}, {"f": f})


def accumulator_scale_(t: Tensor, f: float | Tensor) -> Tensor:
    """f t."""
    if isinstance(f, float | int) and f == 0:
        return accumulator_zero_(t)
    return update("AccumulatorScale", lambda total, f: total * _as(f, total), {"t": t}, {"f": f})


def accumulator_zero_(t: Tensor) -> Tensor:
    """0."""
    return update("AccumulatorZero", lambda total: total.new_zeros(total.shape), {"t": t})


def sparse_accumulate_(
    t: Tensor,
    X: Tensor,  # noqa: N803
    indices: Tensor,
    axis: int = 0,
    f: float | Tensor | None = None,
    W: Tensor | None = None,  # noqa: N803
) -> Tensor:
    """Adds slices of an axis where the indices say. `W` only decides how an IPU would lay `t` out."""
    place = handle_negative_axis(t, axis)

    def run(total: Any, x: Any, which: Any, f: Any) -> Any:
        added = _as(x, total)
        added = added if f is None else added * _as(f, total)
        count = which.numel()
        rows = added.reshape([*total.shape[:place], count, *total.shape[place + 1 :]])
        return total.index_add(place, which.reshape(-1).long(), rows)

    return update("SparseAccumulate", run, {"t": t, "X": X, "indices": indices}, {"f": f})


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:  # noqa: N803
    """X, over `t`."""
    return update("CopyVarUpdate", lambda target, x: x, {"t": t, "X": X})
