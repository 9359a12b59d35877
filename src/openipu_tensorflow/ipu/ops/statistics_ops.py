"""`ipu.statistics_ops`: histograms."""

from __future__ import annotations

from typing import Any


def fixed_width_bins(inputs: Any, n_bins: int) -> Any:
    """The inner edges of `n_bins` bins of one width between the smallest and the largest value."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    value = ops.convert_to_tensor(inputs)
    if value.shape.rank != 1:
        raise ValueError(f"fixed_width_bins takes a tensor of one dimension, not of shape {value.shape}.")
    low, high = math_ops.reduce_min(value), math_ops.reduce_max(value)
    return math_ops.linspace_nd(low, high, n_bins + 1)[1:-1]


def histogram_normalize(hist: Any) -> Any:
    """Counts over their sum."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    value = ops.convert_to_tensor(hist)
    return value / math_ops.reduce_sum(value)


def histogram(inputs: Any, levels: Any, absolute_of_input: bool = False) -> Any:
    """How many values lie between each level and the next, as float32; one bin more than levels."""
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    value, edges = ops.convert_to_tensor(inputs), ops.convert_to_tensor(levels)
    _check("histogram", value, edges)
    if absolute_of_input:
        value = math_ops.abs(value)
    above = math_ops.cast(value[..., None] >= edges, dtypes.float32)  # [values, levels]
    flat = math_ops.reduce_sum(above, axis=list(range(value.shape.rank)))
    total = math_ops.cast(value.shape.num_elements(), dtypes.float32)
    from tensorflow.python.ops import array_ops

    reached = array_ops.concat([total[None], flat], axis=0)
    left = array_ops.concat([flat, math_ops.cast([0.0], dtypes.float32)], axis=0)
    return reached - left


def histogram_update(hist: Any, inputs: Any, levels: Any, absolute_of_input: bool = False) -> Any:
    """Counts with those of further values."""
    from tensorflow.python.framework import dtypes, ops

    held, value, edges = (ops.convert_to_tensor(given) for given in (hist, inputs, levels))
    if held.dtype != dtypes.float32:
        raise ValueError(f"hist must be of float32 type, not {held.dtype.name}.")
    _check("histogram_update", held, value, edges)
    if held.shape[0] != edges.shape[0] + 1:
        raise ValueError(
            f"hist and levels shapes are incompatible. For n levels, hist must have n+1 elements, not {held.shape[0]} "
            f"for {edges.shape[0]}."
        )
    return held + histogram(value, edges, absolute_of_input)


def _check(what: str, *tensors: Any) -> None:
    from tensorflow.python.framework import dtypes

    for tensor in tensors:
        if tensor.dtype not in (dtypes.float16, dtypes.float32):
            raise ValueError(f"Only float16 and float32 types are supported for {what}, not {tensor.dtype.name}.")
        if tensor.shape.rank != 1:
            raise ValueError(f"{what} expects rank-1 tensor inputs. One has shape {tensor.shape}.")
