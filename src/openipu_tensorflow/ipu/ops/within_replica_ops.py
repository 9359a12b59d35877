"""`ipu.within_replica_ops`: collectives between the shards of one replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_OPS = {
    "COLLECTIVE_OP_ADD": "add_n",
    "COLLECTIVE_OP_MUL": "mul",
    "COLLECTIVE_OP_MIN": "min",
    "COLLECTIVE_OP_MAX": "max",
}


def all_gather(input_shards: Sequence[Any], axis: int = 0) -> list[Any]:
    """The tensors of all shards, joined, for each of them."""
    from tensorflow.python.ops import array_ops

    shards = _check(input_shards)
    scalars = [array_ops.reshape(shard, [1]) if shard.shape.rank == 0 else shard for shard in shards]
    return [array_ops.concat(scalars, axis=axis) for _ in shards]


def all_reduce(input_shards: Sequence[Any], op: str) -> list[Any]:
    """The reduction over all shards, for each of them."""
    shards = _check(input_shards)
    return [_reduce(shards, op) for _ in shards]


def reduce_scatter(input_shards: Sequence[Any], op: str) -> list[Any]:
    """The reduction over all shards, of which each keeps one part, filled up with zeros at the end."""
    from tensorflow.python.ops import array_ops

    shards = _check(input_shards)
    flat = [array_ops.reshape(shard, [-1]) for shard in shards]
    longest = max(int(shard.shape[0]) for shard in flat)
    size = -(-longest // len(shards)) * len(shards)
    padded = [array_ops.pad(shard, [[0, size - int(shard.shape[0])]]) for shard in flat]
    return list(array_ops.split(_reduce(padded, op), len(shards)))


def _check(shards: Sequence[Any]) -> list[Any]:
    from tensorflow.python.framework import ops

    if not isinstance(shards, (list, tuple)) or not shards:
        raise ValueError("input_shards must be a list or a tuple with a tensor for each shard.")
    return [ops.convert_to_tensor(shard) for shard in shards]


def _reduce(shards: list[Any], op: str) -> Any:
    from tensorflow.python.ops import math_ops

    if op not in _OPS:
        raise ValueError(f"There is no reduction {op!r} between shards: one of {', '.join(_OPS)}.")
    if _OPS[op] == "add_n":
        return math_ops.add_n(shards)
    functions = {"mul": math_ops.multiply, "min": math_ops.minimum, "max": math_ops.maximum}
    made = shards[0]
    for shard in shards[1:]:
        made = functions[_OPS[op]](made, shard)
    return made
