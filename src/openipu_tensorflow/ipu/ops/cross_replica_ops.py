"""`ipu.cross_replica_ops`: sums and means over replicas."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op


def cross_replica_sum(x: Any, replica_group_size: int | None = None, name: str | None = None) -> Any:
    """The sum over the replicas of a group; its gradient is the sum of gradients."""
    return _reduce("IpuCrossReplicaSum", x, replica_group_size)


def cross_replica_mean(x: Any, replica_group_size: int | None = None, name: str | None = None) -> Any:
    """The mean over the replicas of a group."""
    return _reduce("IpuCrossReplicaMean", x, replica_group_size)


def _reduce(op: str, x: Any, size: int | None) -> Any:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import custom_gradient

    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise ValueError(f"replica_group_size must be a positive number, or None or 0 for all, not {size!r}.")

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def reduce(value: Any) -> Any:
        def backward(upstream: Any) -> Any:
            return _exchange(op, upstream, size)

        return _exchange(op, value, size), backward

    return reduce(ops.convert_to_tensor(x))


def _exchange(op: str, tensor: Any, size: int | None) -> Any:
    return add_device_op(op, [tensor], [(tensor.dtype, tensor.shape)], {"group": size or 0})[0]


def assume_equal_across_replicas(tensors: Any, inplace: bool = False) -> Any:
    """Mark tensors as the same on every replica. Results are the same with and without."""
    from tensorflow.python.ops import array_ops
    from tensorflow.python.util import nest

    return nest.map_structure(array_ops.identity, tensors)
