"""What `ipu.horovod` and the older `ipu.distributed` say of a job: Horovod's names, on poprun's instances.

In: poprun's environment. Out: numbers; collectives with Horovod's arguments.
"""

from __future__ import annotations

import os
from typing import Any

import numpy

import popdist
import tensorflow as tf
from openipu_tensorflow.ipu.distributed import host_collective_ops
from openipu_tensorflow.ipu.distributed.exchange import find_exchange

Average, Sum, Adasum = 0, 1, 2  # Horovod's numbers


def init() -> None:
    """Meet the other instances."""
    popdist.init()


def shutdown() -> None:
    """Nothing to do: the instances part when their processes end."""


def size() -> int:
    """Instances of the job."""
    return popdist.getNumInstances()


def rank() -> int:
    """The number of this instance."""
    return popdist.getInstanceIndex()


def local_size() -> int:
    """Instances on this host."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", popdist.getNumInstances()))


def local_rank() -> int:
    """The number of this instance among those of its host."""
    return popdist.getLocalInstanceIndex()


def is_homogeneous() -> bool:
    """Every host has as many instances."""
    return True


def mpi_built() -> bool:
    """Instances are started as MPI would start them; they meet by torch.distributed."""
    return True


mpi_enabled = mpi_threads_supported = mpi_built


def gloo_built() -> bool:
    """Horovod's own ways to exchange are not here."""
    return False


gloo_enabled = nccl_built = ddl_built = gloo_built


def allreduce(tensor: Any, op: int | None = None) -> Any:
    """The mean over all instances, or with `Sum` the sum."""
    if op == Adasum:
        raise NotImplementedError("The Adasum reduction is not implemented: use Sum or Average.")
    if op not in (None, Sum, Average):
        raise ValueError(f"The reduction is {op!r}: use Sum or Average.")
    if isinstance(tensor, tf.IndexedSlices):
        scale = size() if op in (None, Average) else 1
        values = allgather(tensor.values) / tf.cast(scale, tensor.dtype)
        return tf.IndexedSlices(values, allgather(tensor.indices), tensor.dense_shape)
    chosen = tf.distribute.ReduceOp.SUM if op == Sum else tf.distribute.ReduceOp.MEAN
    return host_collective_ops.allreduce(tensor, chosen)


def allgather(tensor: Any) -> Any:
    """What every instance has, one behind the other along the first axis."""

    def gather(name: str, own: Any) -> Any:
        return numpy.concatenate(find_exchange().gather(name, own))

    return host_collective_ops.run_on_host(tensor, gather, None, "HorovodAllgather", lambda shape: [None, *shape[1:]])


def broadcast(tensor: Any, root_rank: int) -> Any:
    """What one instance has."""
    return host_collective_ops.broadcast(tensor, root_rank)
