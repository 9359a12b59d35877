"""Raw ops that are none of arithmetic."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op
from openipu_tensorflow.ipu.ops import internal_ops, replication_ops


def ipu_replication_normalise(input: Any, name: str | None = None) -> Any:
    """A tensor divided by the number of replicas."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import custom_gradient

    @custom_gradient.custom_gradient  # type: ignore[untyped-decorator]
    def divide(value: Any) -> Any:
        return (
            add_device_op("IpuReplicationNormalise", [value], [(value.dtype, value.shape)])[0],
            ipu_replication_normalise,
        )

    return divide(ops.convert_to_tensor(input))


def ipu_replication_index(name: str | None = None) -> Any:
    """The number of the replica."""
    return replication_ops.replication_index()


def ipu_remap(input: Any, name: str | None = None) -> Any:
    """A tensor that lies evenly on the tiles."""
    return internal_ops.remap(input, name)


def ipu_remap_deduce(input: Any, name: str | None = None) -> Any:
    """A tensor that lies as its users want it."""
    return internal_ops.remap_deduce(input, name)


def ipu_fifo(input: Any, depth: int, offload: bool = False, name: str | None = None) -> Any:
    """The value of some rounds before."""
    return internal_ops.fifo(input, depth, offload, name)


def ipu_print_tensor(input: Any, tensor_name: str = "", name: str | None = None) -> Any:
    """Print a tensor."""
    return internal_ops.print_tensor(input, tensor_name)
