"""`ipu.all_to_all_op`: tensors exchanged between all replicas."""

from __future__ import annotations

from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.collectives import add_collective


def all_to_all(
    x: Any, split_dimension: int, concat_dimension: int, replication_factor: int, name: str | None = None
) -> Any:
    """Each replica gives one share of its tensor to every other, and joins what it gets."""
    from tensorflow.python.framework import ops

    tensor = ops.convert_to_tensor(x)
    shape = tensor.shape.as_list()
    rank = len(shape)
    split, joined = split_dimension % rank, concat_dimension % rank
    if not 0 <= split < rank or not 0 <= joined < rank:
        raise ValueError(f"Dimensions {split_dimension} and {concat_dimension} are not those of shape {shape}.")
    if shape[split] % replication_factor:
        raise ValueError(
            f"Dimension {split} has size {shape[split]}, which {replication_factor} replicas cannot share evenly."
        )
    shape[split] //= replication_factor
    shape[joined] *= replication_factor

    def exchange(values: list[Any]) -> list[Any]:
        shares = [numpy.split(value, len(values), axis=split) for value in values]
        return [numpy.concatenate([share[place] for share in shares], axis=joined) for place in range(len(values))]

    _check_factor(replication_factor)
    return add_collective([tensor], [shape], [tensor.dtype], exchange)[0]


def all_gather(x: Any, replication_factor: int, name: str = "") -> Any:
    """Tensors of all replicas, on a new first axis."""
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    _check_factor(replication_factor)
    flat = [ops.convert_to_tensor(entry) for entry in nest.flatten(x)]

    def gather(tensor: Any) -> Any:
        def exchange(values: list[Any]) -> list[Any]:
            return [numpy.stack(values)] * len(values)

        shape = [replication_factor, *tensor.shape.as_list()]
        return add_collective([tensor], [shape], [tensor.dtype], exchange)[0]

    return nest.pack_sequence_as(x, [gather(entry) for entry in flat])


def _check_factor(factor: int) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(f"replication_factor must be a positive number, not {factor!r}.")
