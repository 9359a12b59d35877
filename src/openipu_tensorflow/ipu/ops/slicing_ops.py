"""`ipu.slicing_ops`: slices of sequences, put elsewhere. Which rows they are may depend on the data of a run."""

from __future__ import annotations

from typing import Any


def sequence_slice(
    dst: Any, src: Any, num_elems: Any, src_offsets: Any, dst_offsets: Any, zero_unused: bool, name: str | None = None
) -> Any:
    """`dst` with `num_elems[i]` rows of `src` from `src_offsets[i]` on in place of those from `dst_offsets[i]` on.
    Later slices come over earlier ones. Other rows stay, or are zeros with `zero_unused`."""
    from tensorflow.python.framework import ops

    counts, sources, targets = (_to_offsets(value) for value in (num_elems, src_offsets, dst_offsets))
    if not counts.shape.is_compatible_with(sources.shape) or not counts.shape.is_compatible_with(targets.shape):
        raise ValueError(
            "num_elems, src_offsets and dst_offsets must have matching shapes, and they have "
            f"{counts.shape}, {sources.shape} and {targets.shape}."
        )
    target, source = ops.convert_to_tensor(dst), ops.convert_to_tensor(src)
    _check_rows(target, source)
    return _place(source, target.shape[0], counts, sources, targets, None if zero_unused else target)


def sequence_slice_unpack(
    src: Any, num_elems: Any, src_offsets: Any, total_elements: int, name: str | None = None
) -> Any:
    """Slices of `src`, one behind the other: `total_elements` rows in all."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    counts, sources = _to_offsets(num_elems), _to_offsets(src_offsets)
    if not counts.shape.is_compatible_with(sources.shape):
        raise ValueError(
            f"num_elems and src_offsets must have matching shapes, and they have {counts.shape} and {sources.shape}."
        )
    targets = math_ops.cumsum(counts, exclusive=True)
    return _place(ops.convert_to_tensor(src), int(total_elements), counts, sources, targets, None)


def sequence_slice_pack(
    dst: Any, src: Any, num_elems: Any, dst_offsets: Any, zero_unused: bool, name: str | None = None
) -> Any:
    """`dst` with rows of `src`, of which slices lie one behind the other, at their offsets."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import math_ops

    counts, targets = _to_offsets(num_elems), _to_offsets(dst_offsets)
    if not counts.shape.is_compatible_with(targets.shape):
        raise ValueError(
            f"num_elems and dst_offsets must have matching shapes, and they have {counts.shape} and {targets.shape}."
        )
    target, source = ops.convert_to_tensor(dst), ops.convert_to_tensor(src)
    _check_rows(target, source)
    sources = math_ops.cumsum(counts, exclusive=True)
    return _place(source, target.shape[0], counts, sources, targets, None if zero_unused else target)


def _to_offsets(value: Any) -> Any:
    from tensorflow.python.framework import dtypes, ops
    from tensorflow.python.ops import math_ops

    found = ops.convert_to_tensor(value)
    return math_ops.cast(found, dtypes.int32)


def _check_rows(target: Any, source: Any) -> None:
    if target.dtype != source.dtype:
        raise ValueError(f"src and dst types must match, and they are {source.dtype.name} and {target.dtype.name}.")
    if not target.shape[1:].is_compatible_with(source.shape[1:]):
        raise ValueError(f"src and dst inner shapes must match. They are {source.shape[1:]} and {target.shape[1:]}.")


def _place(source: Any, rows: int, counts: Any, sources: Any, targets: Any, otherwise: Any) -> Any:
    """For each row of the result the last slice that covers it, and the row of the source that it takes from there."""
    from tensorflow.python.framework import dtypes
    from tensorflow.python.ops import array_ops, math_ops

    places = math_ops.range(rows)[:, None]
    slices = int(counts.shape[0])
    covered = math_ops.logical_and(places >= targets[None], places < (targets + counts)[None])
    numbers = math_ops.range(1, slices + 1)[None]
    chosen = math_ops.reduce_max(math_ops.cast(covered, dtypes.int32) * numbers, axis=1)
    picked = math_ops.maximum(chosen - 1, 0)
    origin = array_ops.gather(sources - targets, picked) + math_ops.range(rows)
    last = int(source.shape[0]) - 1
    taken = array_ops.gather(source, math_ops.minimum(math_ops.maximum(origin, 0), last))
    used = array_ops.reshape(chosen > 0, [rows] + [1] * (source.shape.rank - 1))
    rest = array_ops.zeros_like(taken) if otherwise is None else otherwise
    return array_ops.where_v2(used, taken, rest)
