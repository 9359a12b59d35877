"""`ipu.math_ops`: products in parts, sums of segments."""

from __future__ import annotations

from typing import Any


def serialized_matmul(
    a: Any,
    b: Any,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Any:
    """A product of two matrices in `serialization_factor` parts along one dimension, one after the other."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, math_ops

    first, second = ops.convert_to_tensor(a), ops.convert_to_tensor(b)
    if serialization_dimension not in ("a_columns", "a_rows_b_columns", "b_rows"):
        raise ValueError(
            f"Invalid serialization_dimension={serialization_dimension!r}: it is 'a_columns', 'a_rows_b_columns' or "
            "'b_rows'."
        )
    if first.shape.rank != 2 or second.shape.rank != 2:
        raise ValueError(
            f"serialized_matmul multiplies two matrices, not tensors of shapes {first.shape} and {second.shape}."
        )
    left = array_ops.transpose(first) if transpose_a else first
    right = array_ops.transpose(second) if transpose_b else second
    along = {"a_columns": left.shape[0], "a_rows_b_columns": left.shape[1], "b_rows": right.shape[1]}
    size = along[serialization_dimension]
    if serialization_factor < 1 or size % serialization_factor:
        raise ValueError(
            f"The dimension {serialization_dimension} has size {size}, which serialization_factor="
            f"{serialization_factor} does not divide."
        )
    if serialization_dimension == "a_rows_b_columns":
        lefts = array_ops.split(left, serialization_factor, axis=1)
        rights = array_ops.split(right, serialization_factor, axis=0)
        total = math_ops.matmul(lefts[0], rights[0])
        for one, other in zip(lefts[1:], rights[1:], strict=True):
            total = total + math_ops.matmul(one, other)
        return array_ops.identity(total, name=name)
    if serialization_dimension == "a_columns":
        parts = [math_ops.matmul(part, right) for part in array_ops.split(left, serialization_factor, axis=0)]
        return array_ops.concat(parts, axis=0, name=name)
    parts = [math_ops.matmul(left, part) for part in array_ops.split(right, serialization_factor, axis=1)]
    return array_ops.concat(parts, axis=1, name=name)


def segment_sum(data: Any, segment_ids: Any, num_segments: int, name: str | None = None) -> Any:
    """Sums of rows that share a number; the numbers are sorted."""
    from tensorflow.python.ops import math_ops

    return math_ops.unsorted_segment_sum(data, segment_ids, num_segments, name=name)
