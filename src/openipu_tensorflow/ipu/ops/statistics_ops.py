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
    """How many values lie between each level and the next; one bin more than levels."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    value, edges = ops.convert_to_tensor(inputs), ops.convert_to_tensor(levels)
    if edges.shape.rank != 1:
        raise ValueError(f"levels has one dimension, not shape {edges.shape}.")
    if absolute_of_input:
        value = math_ops.abs(value)
    above = math_ops.cast(value[..., None] >= edges, value.dtype)  # [values, levels]
    flat = math_ops.reduce_sum(above, axis=list(range(value.shape.rank)))
    total = math_ops.cast(value.shape.num_elements(), value.dtype)
    from tensorflow.python.ops import array_ops

    reached = array_ops.concat([total[None], flat], axis=0)
    left = array_ops.concat([flat, math_ops.cast([0.0], value.dtype)], axis=0)
    return reached - left


def histogram_update(hist: Any, inputs: Any, levels: Any, absolute_of_input: bool = False) -> Any:
    """Counts with those of further values."""
    return hist + histogram(inputs, levels, absolute_of_input)
