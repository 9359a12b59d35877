"""`ipu.distributed`'s collectives between the hosts of a job's instances.

In: a tensor, eager or of a graph. Out: a tensor. A graph's collective waits until every instance has come to the one of
the same name; eager ones meet in the order in which they are called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy

import tensorflow as tf
from openipu_tensorflow.ipu.distributed.exchange import find_exchange, reduce_arrays

_EAGER = "Default"


def allgather(value: Any, tensor_name: str | None = None) -> Any:
    """What every instance has, along a new first axis."""

    def gather(name: str, own: Any) -> Any:
        return numpy.stack(find_exchange().gather(name, own))

    return run_on_host(value, gather, tensor_name, "PopDistAllGather", lambda shape: [None, *shape])


def allreduce(value: Any, reduce_op: Any, tensor_name: str | None = None) -> Any:
    """The sum or the mean over all instances, by a `tf.distribute.ReduceOp`."""
    mean = _wants_mean(reduce_op)

    def reduce(name: str, own: Any) -> Any:
        return reduce_arrays(find_exchange().gather(name, own), mean=mean)

    return run_on_host(value, reduce, tensor_name, "PopDistAllReduce")


def broadcast(value: Any, root_rank: int = 0, tensor_name: str | None = None) -> Any:
    """What one instance has."""

    def take(name: str, own: Any) -> Any:
        return find_exchange().take(name, own, root_rank)

    return run_on_host(value, take, tensor_name, "PopDistBroadcast")


def run_on_host(
    value: Any,
    function: Callable[[str, Any], Any],
    name: str | None,
    prefix: str,
    shape: Callable[[list[Any]], list[Any]] = list,
) -> Any:
    """Let the host compute `function(name, value)`, now or when the graph runs."""
    tensor = tf.convert_to_tensor(value)
    if tf.executing_eagerly():
        return tf.constant(function(name or _EAGER, tensor.numpy()), tensor.dtype)
    told = name or f"{prefix}_{re.sub('[^a-zA-Z0-9_]', '_', tensor.name)}"

    def compute(own: Any) -> Any:
        return function(told, own)

    # Not stateful: TensorFlow would run one after the other, and instances may have them in different orders.
    result = tf.numpy_function(compute, [tensor], tensor.dtype, stateful=False)
    if tensor.shape.rank is not None:
        result.set_shape(shape(tensor.shape.as_list()))
    return result


def _wants_mean(reduce_op: Any) -> bool:
    found = str(getattr(reduce_op, "value", reduce_op)).upper()
    if found not in ("SUM", "MEAN"):
        raise ValueError(f"Unsupported reduce op: {reduce_op}. Use tf.distribute.ReduceOp.SUM or MEAN.")
    return found == "MEAN"
