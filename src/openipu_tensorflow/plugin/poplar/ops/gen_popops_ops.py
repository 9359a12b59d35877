"""Raw ops between replicas, and on rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openipu_tensorflow.ipu.ops import all_to_all_op, cross_replica_ops


def ipu_cross_replica_sum(input: Any, replica_group_size: int | None = None, name: str | None = None) -> Any:
    """The sum over replicas."""
    return cross_replica_ops.cross_replica_sum(input, replica_group_size)


def ipu_cross_replica_mean(input: Any, replica_group_size: int | None = None, name: str | None = None) -> Any:
    """The mean over replicas."""
    return cross_replica_ops.cross_replica_mean(input, replica_group_size)


def ipu_all_gather(inputs: Sequence[Any], replication_factor: int, name: str | None = None) -> list[Any]:
    """Tensors of all replicas, on a new first axis."""
    return list(all_to_all_op.all_gather(list(inputs), replication_factor))


def ipu_all_to_all(
    input: Any, split_dimension: int, concat_dimension: int, split_count: int, name: str | None = None
) -> Any:
    """Each replica gives one share of its tensor to every other."""
    return all_to_all_op.all_to_all(input, split_dimension, concat_dimension, split_count)


def ipu_multi_slice(input: Any, indices: Any, indices_are_sorted: bool = False, name: str | None = None) -> Any:
    """Rows of a table."""
    from tensorflow.python.ops import array_ops

    return array_ops.gather(input, indices)


def ipu_multi_update(
    input: Any, indices: Any, updates: Any, indices_are_sorted: bool = False, name: str | None = None
) -> Any:
    """A table with some of its rows replaced."""
    from tensorflow.python.ops import gen_array_ops

    return gen_array_ops.tensor_scatter_update(input, _column(indices), updates)


def ipu_multi_update_add(
    input: Any, indices: Any, updates: Any, scale: Any, indices_are_sorted: bool = False, name: str | None = None
) -> Any:
    """A table with scaled rows added to some of its rows."""
    from tensorflow.python.ops import gen_array_ops

    return gen_array_ops.tensor_scatter_add(input, _column(indices), updates * scale)


def _column(indices: Any) -> Any:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    found = ops.convert_to_tensor(indices)
    return found if found.shape.rank == 2 else array_ops.expand_dims(found, -1)
