"""`ipu.cross_replica_ops`: sums and means over replicas."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.ipu.clusters.collectives import add_collective, reduce_in_groups


def cross_replica_sum(x: Any, replica_group_size: int | None = None, name: str | None = None) -> Any:
    """The sum over the replicas of a group; its gradient is the sum of gradients."""
    return _reduce(x, replica_group_size, False)


def cross_replica_mean(x: Any, replica_group_size: int | None = None, name: str | None = None) -> Any:
    """The mean over the replicas of a group."""
    return _reduce(x, replica_group_size, True)


def _reduce(x: Any, size: int | None, mean: bool) -> Any:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import custom_gradient

    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ValueError(f"replica_group_size must be a positive number or None, not {size!r}.")

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def reduce(value: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return _exchange(upstream, size, mean)

        return _exchange(value, size, mean), backward

    return reduce(ops.convert_to_tensor(x))


def _exchange(tensor: Any, size: int | None, mean: bool) -> Any:
    def combine(stacked: Any) -> Any:
        total = stacked.sum(axis=0, dtype=stacked.dtype)
        return (total / len(stacked)).astype(stacked.dtype) if mean else total

    return add_collective([tensor], [tensor.shape], [tensor.dtype], reduce_in_groups(size, combine))[0]


def assume_equal_across_replicas(tensors: Any, inplace: bool = False) -> Any:
    """Mark tensors as the same on every replica. Results are the same with and without."""
    from tensorflow.python.ops import array_ops
    from tensorflow.python.util import nest

    return nest.map_structure(array_ops.identity, tensors)
