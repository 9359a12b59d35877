"""`ipu.all_to_all_op`: tensors exchanged between all replicas."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op


def all_to_all(
    x: Any, split_dimension: int, concat_dimension: int, replication_factor: int, name: str | None = None
) -> Any:
    """Each replica gives one share of its tensor to every other, and joins what it gets."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import custom_gradient

    check_factor(replication_factor)
    tensor = ops.convert_to_tensor(x)
    shape = tensor.shape.as_list()
    rank = len(shape)
    split, joined = split_dimension % rank, concat_dimension % rank
    if not -rank <= split_dimension < rank or not -rank <= concat_dimension < rank:
        raise ValueError(f"Dimensions {split_dimension} and {concat_dimension} are not those of shape {shape}.")
    if shape[split] % replication_factor:
        raise ValueError(
            f"Dimension {split} has size {shape[split]}, which {replication_factor} replicas cannot share evenly."
        )
    shape[split] //= replication_factor
    shape[joined] *= replication_factor

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def trade(value: Any) -> Any:
        options = {
            "split_dimension": split,
            "concat_dimension": joined,
            "replication_factor": replication_factor,
        }

        def backward(upstream: Any) -> Any:
            return all_to_all(upstream, joined, split, replication_factor)

        return add_device_op("IpuAllToAll", [value], [(value.dtype, shape)], options)[0], backward

    return trade(tensor)


def all_gather(x: Any, replication_factor: int, name: str = "") -> Any:
    """Tensors of all replicas, on a new first axis. Its gradient goes back to the replica that a part is from."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops, custom_gradient
    from tensorflow.python.util import nest

    check_factor(replication_factor)

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def gather(value: Any) -> Any:
        def backward(upstream: Any) -> Any:
            from openipu_tensorflow.ipu.ops.cross_replica_ops import cross_replica_sum
            from openipu_tensorflow.ipu.ops.replication_ops import replication_index

            return array_ops.gather(cross_replica_sum(upstream), replication_index())

        shape = [replication_factor, *value.shape.as_list()]
        options = {"replication_factor": replication_factor}
        return add_device_op("IpuAllGather", [value], [(value.dtype, shape)], options)[0], backward

    return nest.pack_sequence_as(x, [gather(ops.convert_to_tensor(entry)) for entry in nest.flatten(x)])


def check_factor(factor: int) -> None:
    """Raise for what is no number of replicas."""
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(f"replication_factor must be a positive number, not {factor!r}.")
