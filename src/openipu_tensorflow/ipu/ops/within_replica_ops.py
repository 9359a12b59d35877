"""`ipu.within_replica_ops`: collectives between the shards of one replica, whose tensors are given in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openipu_tensorflow.ipu.clusters.tracing import current_trace
from openipu_tensorflow.ipu.sharding import get_sharding

_OPS = ("ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR")
_PREFIX = "COLLECTIVE_OP_"


def all_gather(input_shards: Sequence[Any], axis: int = 0) -> list[Any]:
    """The tensors of all shards, joined, for each of them."""
    from tensorflow.python.ops import array_ops

    shards = _check(input_shards)
    first = shards[0].shape.as_list()
    for number, shard in enumerate(shards[1:], 1):
        sizes = zip(first, shard.shape.as_list(), strict=True)
        if any(one != other for place, (one, other) in enumerate(sizes) if place != axis % len(first)):
            raise ValueError(
                f"Expecting tensor dimensions to all have the same sizes, except for dim {axis}, but got shapes "
                f"{first} and {shard.shape.as_list()} for tensors 0 and {number}."
            )
    return [array_ops.concat(shards, axis=axis) for _ in shards]


def all_reduce(input_shards: Sequence[Any], op: str) -> list[Any]:
    """The reduction over all shards, for each of them. Shorter tensors are filled up with zeros."""
    shards = _pad(_check(input_shards), 1)
    reduce = _find_reduction(op)
    return [reduce(shards) for _ in shards]


def reduce_scatter(input_shards: Sequence[Any], op: str) -> list[Any]:
    """The reduction over all shards, whose elements they get in turn; zeros where there are too few."""
    from tensorflow.python.ops import array_ops

    shards = _check(input_shards)
    total = _find_reduction(op)(_pad(shards, len(shards)))
    rows = array_ops.reshape(total, [-1, len(shards)])
    return [rows[:, number] for number in range(len(shards))]


def _check(given: Sequence[Any]) -> list[Any]:
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    if not isinstance(given, (list, tuple)) or not given:
        raise ValueError("input_shards must be a list or a tuple with a tensor for each shard.")
    shards = [ops.convert_to_tensor(shard) for shard in given]
    if len({id(shard) for shard in shards}) != len(shards):
        raise ValueError("input_shards should not contain any duplicate entries.")
    if len({shard.dtype for shard in shards}) != 1:
        raise ValueError(
            f"Expected tensors to all be of the same type, not {', '.join(shard.dtype.name for shard in shards)}."
        )
    if len({shard.shape.rank for shard in shards}) != 1:
        raise ValueError(f"Expected tensors to all be of the same rank, not {', '.join(str(s.shape) for s in shards)}.")
    _check_order(shards)
    return [array_ops.reshape(shard, [1]) if shard.shape.rank == 0 else shard for shard in shards]


def _check_order(shards: Sequence[Any]) -> None:
    """A program with shards in another order is an error when it runs."""
    from tensorflow.python.framework import errors

    trace = current_trace()
    places = [getattr(shard, "op", None) and get_sharding(shard.op) for shard in shards]
    if trace is None or not all(places) or [place[0] for place in places if place] == list(range(len(shards))):
        return
    trace.open[0].marks["fault"] = errors.FailedPreconditionError(
        None,
        None,
        f"A collective between shards got tensors of shards {[list(place or ()) for place in places]}: give them in "
        f"the order of the shards, from 0 to {len(shards) - 1}.",
    )


def _pad(shards: Sequence[Any], multiple: int) -> list[Any]:
    """Vectors of one length."""
    from tensorflow.python.ops import array_ops

    for shard in shards:
        if shard.shape.rank != 1:
            raise ValueError(f"Reductions between shards take tensors of one dimension, not of shape {shard.shape}.")
    longest = max(int(shard.shape[0]) for shard in shards)
    size = -(-longest // multiple) * multiple
    missing = [size - int(shard.shape[0]) for shard in shards]
    return [
        array_ops.concat([shard, array_ops.zeros([count], shard.dtype)], axis=0) if count else shard
        for shard, count in zip(shards, missing, strict=True)
    ]


def _find_reduction(op: str) -> Callable[[Sequence[Any]], Any]:
    from tensorflow.python.ops import gen_math_ops, math_ops

    kind = op.removeprefix(_PREFIX)
    functions = {
        "ADD": math_ops.add,
        "MUL": math_ops.multiply,
        "MIN": math_ops.minimum,
        "MAX": math_ops.maximum,
        "LOGICAL_AND": gen_math_ops.logical_and,
        "LOGICAL_OR": gen_math_ops.logical_or,
    }
    if kind not in functions or kind == op:
        known = ", ".join(_PREFIX + entry for entry in _OPS)
        raise ValueError(f"There is no reduction {op!r} between shards: one of {known}.")

    def reduce(shards: Sequence[Any]) -> Any:
        made = shards[0]
        for shard in shards[1:]:
            made = functions[kind](made, shard)
        return made

    return reduce
