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
    for tensor, what in ((first, "a"), (second, "b")):
        if tensor.shape.rank is None or tensor.shape.rank < 2:
            raise ValueError(f"Expected tensor '{what}' to have a minimum rank of 2, and its shape is {tensor.shape}.")
    if isinstance(serialization_factor, bool) or serialization_factor < 1:
        raise ValueError(f"serialization_factor has to be at least 1, but was {serialization_factor}.")
    left = array_ops.matrix_transpose(first) if transpose_a else first
    right = array_ops.matrix_transpose(second) if transpose_b else second
    along = {"a_columns": left.shape[-2], "a_rows_b_columns": left.shape[-1], "b_rows": right.shape[-1]}
    size = along[serialization_dimension]
    if size % serialization_factor:
        raise ValueError(
            f"Expected 'serialization_factor' ({serialization_factor}) to divide the dimension "
            f"{serialization_dimension} ({size})."
        )
    if serialization_dimension == "a_rows_b_columns":
        lefts = array_ops.split(left, serialization_factor, axis=-1)
        rights = array_ops.split(right, serialization_factor, axis=-2)
        total = math_ops.matmul(lefts[0], rights[0])
        for one, other in zip(lefts[1:], rights[1:], strict=True):
            total = total + math_ops.matmul(one, other)
        return array_ops.identity(total, name=name)
    if serialization_dimension == "a_columns":
        parts = [math_ops.matmul(part, right) for part in array_ops.split(left, serialization_factor, axis=-2)]
        return array_ops.concat(parts, axis=-2, name=name)
    parts = [math_ops.matmul(left, part) for part in array_ops.split(right, serialization_factor, axis=-1)]
    return array_ops.concat(parts, axis=-1, name=name)


def segment_sum(data: Any, segment_ids: Any, num_segments: int, name: str | None = None) -> Any:
    """Sums of rows that share a number; the numbers are sorted."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    value, numbers = ops.convert_to_tensor(data), ops.convert_to_tensor(segment_ids)
    for tensor, what in ((value, "data"), (numbers, "segment_ids")):
        if not tensor.shape.is_fully_defined():
            raise ValueError(f"Shape of {what} must be fully defined, and is {tensor.shape}.")
    value.shape.with_rank_at_least(1)
    numbers.shape.with_rank(1)
    if isinstance(num_segments, bool) or num_segments < 1:
        raise ValueError(f"num_segments must be greater than 0; got {num_segments}")
    if value.shape[0] != numbers.shape[0]:
        raise ValueError(
            f"segment_ids (shape {numbers.shape}) must have same length as axis 0 of data (shape {value.shape})"
        )
    return math_ops.unsorted_segment_sum(value, numbers, num_segments, name=name)
