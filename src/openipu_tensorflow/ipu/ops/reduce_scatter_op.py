"""`ipu.reduce_scatter_op`: a reduction over replicas of which each one keeps its share."""

from __future__ import annotations

from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.collectives import add_collective

_OPS = {
    "COLLECTIVE_OP_ADD": lambda stacked: stacked.sum(axis=0, dtype=stacked.dtype),
    "COLLECTIVE_OP_MUL": lambda stacked: stacked.prod(axis=0, dtype=stacked.dtype),
    "COLLECTIVE_OP_MIN": lambda stacked: stacked.min(axis=0),
    "COLLECTIVE_OP_MAX": lambda stacked: stacked.max(axis=0),
    "COLLECTIVE_OP_LOGICAL_AND": lambda stacked: stacked.all(axis=0),
    "COLLECTIVE_OP_LOGICAL_OR": lambda stacked: stacked.any(axis=0),
    "COLLECTIVE_OP_MEAN": lambda stacked: (stacked.sum(axis=0) / len(stacked)).astype(stacked.dtype),
}


def reduce_scatter(x: Any, replication_factor: int, op: str = "COLLECTIVE_OP_ADD", name: str | None = None) -> Any:
    """Reduce flat tensors over replicas; replica n keeps share n, filled up with zeros at the end."""
    from tensorflow.python.framework import ops
    from tensorflow.python.util import nest

    if op not in _OPS and op != "COLLECTIVE_OP_LOCAL":
        raise ValueError(f"There is no reduction {op!r}: one of {', '.join([*_OPS, 'COLLECTIVE_OP_LOCAL'])}.")
    single = not isinstance(x, (list, tuple))
    flat = [ops.convert_to_tensor(entry) for entry in nest.flatten(x)]

    def scatter(tensor: Any) -> Any:
        if tensor.shape.rank != 1:
            raise ValueError(f"reduce_scatter takes tensors of one dimension, not of shape {tensor.shape}.")
        share = -(-tensor.shape[0] // replication_factor)

        def exchange(values: list[Any]) -> list[Any]:
            padded = [numpy.pad(value, (0, share * replication_factor - len(value))) for value in values]
            if op == "COLLECTIVE_OP_LOCAL":
                return [value[place * share : (place + 1) * share] for place, value in enumerate(padded)]
            total = _OPS[op](numpy.stack(padded))
            return [total[place * share : (place + 1) * share] for place in range(len(values))]

        return add_collective([tensor], [(share,)], [tensor.dtype], exchange)[0]

    made = [scatter(entry) for entry in flat]
    return made[0] if single else made
