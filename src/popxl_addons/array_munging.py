"""Cutting and repeating host arrays for tensor parallel variables and inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

__all__ = [
    "handle_negative_axis",
    "pad_axis",
    "repeat",
    "repeat_axis",
    "repeat_shard",
    "shard",
    "shard2D",
    "split2D",
    "squeeze_safe",
    "tensor_parallel_input",
    "unshard",
    "unshard2D",
    "unshard_arrays",
]

Array = np.ndarray[Any, Any]


def handle_negative_axis(x: Array, axis: int) -> int:
    """The axis counted from the front."""
    if x.ndim == 0:
        raise IndexError("a scalar has no axes")
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"there is no axis {axis} in {x.ndim} dimensions")
    return axis % x.ndim


def shard(x: Array, n: int, axis: int) -> Array:
    """Cut ``x`` into ``n`` parts along an axis; the parts stand along a new first axis.

    ``(4, 6)`` in two along axis 1 becomes ``(2, 4, 3)``.
    """
    return np.stack(np.split(x, n, axis=handle_negative_axis(x, axis)))


def unshard_arrays(xs: Sequence[Array], axis: int) -> Array:
    """Join arrays of shape ``(1, …)`` along an axis that is counted without the first one."""
    ranks = {x.ndim for x in xs}
    if len(ranks) > 1:
        raise ValueError(f"arrays of {sorted(ranks)} dimensions cannot be joined")
    position = axis + 1 if axis >= 0 else handle_negative_axis(xs[0], axis)
    return np.concatenate(list(xs), axis=position).squeeze(0)


def unshard(x: Array, axis: int) -> Array:
    """The inverse of :func:`shard`."""
    return unshard_arrays([x[place : place + 1] for place in range(len(x))], axis)


def repeat(x: Array, n: int, axis: int = 0) -> Array:
    """``x`` ``n`` times along a new axis."""
    return np.stack([x] * n, axis)


def repeat_axis(x: Array, n: int, axis: int = 0) -> Array:
    """``x`` ``n`` times, one after the other, along an axis that it has."""
    return np.concatenate([x] * n, axis)


def split2D(x: Array, n_1: int, n_2: int, axis_1: int, axis_2: int) -> list[list[Array]]:  # noqa: N802
    """Cut ``x`` along two axes: a list, by the first, of lists, by the second."""
    return [np.split(part, n_2, axis_2) for part in np.split(x, n_1, axis_1)]


def shard2D(x: Array, n_1: int, n_2: int, axis_1: int, axis_2: int) -> Array:  # noqa: N802
    """Cut ``x`` along two axes; the parts stand along a new first axis, those of ``axis_2`` running fastest."""
    return np.stack([part for row in split2D(x, n_1, n_2, axis_1, axis_2) for part in row])


def unshard2D(x: Array, n_1: int, n_2: int, axis_1: int, axis_2: int) -> Array:  # noqa: N802
    """The inverse of :func:`shard2D`."""
    if x.shape[0] != n_1 * n_2:
        raise ValueError(f"{x.shape[0]} parts are not {n_1} by {n_2}")
    parts = np.split(x, x.shape[0], axis=0)
    rows = [unshard_arrays(parts[start : start + n_2], axis_2) for start in range(0, len(parts), n_2)]
    return np.concatenate(rows, axis=axis_1)


def repeat_shard(
    x: Array,
    n_repeats: int,
    n_shards: int,
    shard_axis: int,
    sharded_tensor: Literal["contiguous", "strided"] = "contiguous",
) -> Array:
    """The parts of ``x`` for ``n_repeats * n_shards`` replicas.

    ``contiguous``: neighbours have different parts (0 1 0 1); ``strided``: neighbours have the same (0 0 1 1).
    """
    parts = shard(x, n_shards, shard_axis)
    if sharded_tensor == "contiguous":
        return repeat_axis(parts, n_repeats, 0)
    if sharded_tensor == "strided":
        return np.repeat(parts, n_repeats, axis=0)
    raise ValueError(f"sharded_tensor is contiguous or strided, not {sharded_tensor!r}")


def _check_parallel(tp: int, rf: int) -> None:
    if tp > rf:
        raise ValueError(f"{tp} tensor parallel replicas of only {rf}")
    if rf % tp:
        raise ValueError(f"{rf} replicas do not divide into groups of {tp}")


def tensor_parallel_input(
    input_data: Array, tp: int, rf: int, repeat_fn: Callable[[Array, int], Array] | None = None
) -> Array:
    """Data for ``rf`` replicas, of which each ``tp`` neighbours get the same.

    ``[n, *shape]`` becomes ``[host transfers, replicas, *shape]``, without the first two axes where they are 1.
    ``repeat_fn`` changes what the i-th of the neighbours gets; it is given ``[n, 1, *shape]`` and i.
    """
    _check_parallel(tp, rf)
    data = np.expand_dims(input_data, axis=1)
    copies = [repeat_fn(data.copy(), i) if repeat_fn else data for i in range(tp)]
    replicas = np.concatenate(copies, axis=1).reshape(-1, rf, *input_data.shape[1:])
    return squeeze_safe(replicas, [0, 1])


def tensor_parallel_output(
    output_data: Array,
    num_host_transfers: int,
    tp: int,
    rf: int,
    data_shape: tuple[int, ...],
    tp_identical: bool = True,
    true_num_host_transfers: int | None = None,
) -> Array:
    """What a session returned as ``[samples, *shape]``, or ``[samples, tp, *shape]`` if the neighbours differ.

    ``true_num_host_transfers``: how many of the transfers were made; a session's arrays have room for the most of any
    stream, and what was not written is left out.
    """
    _check_parallel(tp, rf)
    data = output_data.reshape(num_host_transfers, rf // tp, tp, *data_shape)
    data = data[:true_num_host_transfers].reshape(-1, tp, *data_shape)
    return data[:, 0] if tp_identical else data


def pad_axis(x: Array, n: int, axis: int, value: float = 0) -> Array:
    """``x`` with an axis lengthened to ``n`` by ``value``."""
    if x.shape[axis] > n:
        raise ValueError(f"axis {axis} has {x.shape[axis]} elements, more than {n}")
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - x.shape[axis])
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """Drop the axes that are 1, of all or of those given; others stay."""
    if axis is None:
        return np.squeeze(x)
    axes = {handle_negative_axis(x, a) for a in ([axis] if isinstance(axis, int) else axis)}
    return np.squeeze(x, axis=tuple(a for a in axes if x.shape[a] == 1))
