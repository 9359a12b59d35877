"""`ipu.reduce_scatter_op`: a reduction over replicas of which each one keeps its share."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op
from openipu_tensorflow.ipu.ops.all_to_all_op import check_factor

_OPS = ("ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "LOCAL", "MEAN")
_PREFIX = "COLLECTIVE_OP_"


def reduce_scatter(x: Any, replication_factor: int, op: str = "COLLECTIVE_OP_ADD", name: str | None = None) -> Any:
    """Reduce flat tensors over replicas; replica n keeps share n, filled up with zeros at the end."""
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    check_factor(replication_factor)
    kind = op.removeprefix(_PREFIX)
    if kind not in _OPS or kind == op:
        raise ValueError(f"There is no reduction {op!r}: one of {', '.join(_PREFIX + entry for entry in _OPS)}.")
    single = not isinstance(x, (list, tuple))

    def scatter(tensor: Any) -> Any:
        if tensor.shape.rank != 1:
            raise ValueError(f"reduce_scatter takes tensors of one dimension, not of shape {tensor.shape}.")
        share = -(-int(tensor.shape[0]) // replication_factor)
        options = {"replication_factor": replication_factor, "op": kind}
        return add_device_op("IpuReduceScatter", [tensor], [(tensor.dtype, [share])], options)[0]

    made = [scatter(ops.convert_to_tensor(entry)) for entry in nest.flatten(x)]
    return made[0] if single else made
