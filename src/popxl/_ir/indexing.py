"""`tensor[key]`: integers and slices cut, integer tensors gather, boolean tensors mask with zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from popxl import dtypes

if TYPE_CHECKING:
    from popxl.tensor import Tensor


def take(t: Tensor, key: Any) -> Tensor:
    """What an index means."""
    import popxl.ops as ops
    from popxl.tensor import Tensor, constant, host_tensor_types

    keys = key if isinstance(key, tuple) else (key,)
    if not isinstance(key, bool | str) and all(isinstance(entry, slice | int) for entry in keys):
        return _cut(t, keys)
    if not isinstance(key, bool | str) and isinstance(key, (Tensor, *host_tensor_types)):
        index = key if isinstance(key, Tensor) else constant(key)
        if index.dtype.is_int:
            return ops.gather(t, index)
        if index.dtype is dtypes.bool:
            return ops.where(index, t, constant(0, t.dtype))
    raise TypeError(
        f"{key!r} ({type(key).__name__}) is none of the valid indices of a tensor: integers, slices, and tensors of "
        "integers or booleans."
    )


def _cut(t: Tensor, keys: tuple[Any, ...]) -> Tensor:
    import popxl.ops as ops

    start: list[int | None] = []
    stop: list[int | None] = []
    step: list[int | None] = []
    strides: list[int] = []
    for entry in keys:
        if isinstance(entry, int):
            last = None if entry == -1 else entry + 1
            start, stop, step, strides = [*start, entry], [*stop, last], [*step, 1], [*strides, 1]
        else:
            sign = None if entry.step is None else max(-1, min(1, entry.step))
            start, stop, step = [*start, entry.start], [*stop, entry.stop], [*step, sign]
            strides.append(1 if entry.step is None else abs(entry.step))
    out = ops.slice(t, start, stop, step)
    if any(stride != 1 for stride in strides):
        out = ops.subsample(out, strides)
    dropped = [place for place, entry in enumerate(keys) if isinstance(entry, int)]
    return ops.squeeze(out, axes=dropped) if dropped else out
