"""Variables: tensors that keep their values from run to run, on the device or in the memory beside it.

In: values of the host. Out: variables of the main graph.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from popxl import dtypes
from popxl.context import gcg, get_main_graph, gmg
from popxl.remote_buffer import RemoteBuffer, remote_buffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import HostScalarTensor, Tensor, Variable
from popxl.utils import to_numpy

Retrieval = Literal["one_per_group", "all_replicas"]


def variable(
    data: HostScalarTensor,
    dtype: dtypes.dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: Retrieval | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """A variable of the main graph. With several groups of replicas, `data` has a value for each in front."""
    graph = gcg()
    if graph is not gmg():
        raise ValueError(
            "Variables are made within the main graph alone. Give this graph an input for it "
            "(`popxl.graph_input`, or an "
            "argument of the function), or use `popxl.constant`."
        )
    if retrieval_mode not in (None, "one_per_group", "all_replicas"):
        raise ValueError(f"Invalid retrieval_mode: {retrieval_mode}")
    array = to_numpy(data, dtype, downcast, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow)
    grouping = replica_grouping if replica_grouping is not None else graph.ir.replica_grouping()
    shape = array.shape
    if grouping.num_groups > 1:
        if not shape or shape[0] != grouping.num_groups:
            raise ValueError(
                f"The first dimension of the data ({shape}) has to be the number of groups ({grouping.num_groups}) of "
                f"{grouping}."
            )
        shape = shape[1:]
    made: Variable = graph._add_tensor(name, shape, dtypes.dtype.as_dtype(array.dtype), kind=Variable)
    made._data, made._replica_grouping = array, grouping
    made._retrieval_mode = retrieval_mode or "one_per_group"
    if isinstance(array, np.memmap):
        made._memmap_arr = array
        graph.ir._has_read_only_memmap |= not array.flags.writeable
    return made


def remote_variable(
    data: HostScalarTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: dtypes.dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: Retrieval | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """A variable that an entry of a remote buffer holds."""
    made = variable(data, dtype, name, downcast, replica_grouping, retrieval_mode, log2_scale, nan_on_overflow)
    made._remote = (remote_buffer, offset)
    return made


def remote_replica_sharded_variable(
    data: HostScalarTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: dtypes.dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    retrieval_mode: Retrieval | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """A variable that an entry of a remote buffer holds; the replicas of a group have a share each."""
    replicas = gcg().ir.replication_factor
    if replicas <= 1:
        raise ValueError(
            f"A variable is shared out over replicas, whose number must be greater than 1; here it is {replicas}."
        )
    made = remote_variable(
        data,
        remote_buffer,
        offset,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
    )
    if remote_buffer.meta_shape == ():
        remote_buffer.meta_shape = made.shape
    elif remote_buffer.meta_shape != made.shape:
        raise ValueError(
            f"Remote buffer {remote_buffer.remote_buffer_id} holds shares of a variable of shape "
            f"{remote_buffer.meta_shape}; one of shape {made.shape} needs a buffer of its own."
        )
    made._sharded = True
    return made


def replica_sharded_buffer(
    shape: tuple[int, ...],
    dtype: dtypes.dtype,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    entries: int = 1,
) -> RemoteBuffer:
    """A buffer for shares of variables of this shape on the host."""
    grouping = (replica_grouping or gcg().ir.replica_grouping()).const_rg
    size = grouping.group_size
    over = size if shard_over is None else shard_over
    note = "Without `replica_grouping` a group is all replicas; without `shard_over` it is shared by all of a group."
    if over > size:
        raise ValueError(
            f"A variable is shared over {over} replicas of a group, which must be less than or equal to its "
            f"{size}. {note}"
        )
    if size % over:
        raise ValueError(f"A group of {size} must be divisible by the {over} replicas that share a variable. {note}")
    whole = tuple(shape[1:] if grouping.num_groups > 1 else shape)
    made = remote_buffer((-(-math.prod(whole) // over),), dtype, entries)
    made.meta_shape = whole
    return made


def replica_sharded_variable(
    data: HostScalarTensor,
    dtype: dtypes.dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: ReplicaGrouping | None = None,
    shard_over: int | None = None,
    retrieval_mode: Retrieval | None = "one_per_group",
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> tuple[Variable, Tensor]:
    """A variable, and the share of it that each replica keeps on the device from run to run."""
    array: np.ndarray[Any, Any] = to_numpy(
        data, dtype, downcast, log2_scale=log2_scale, nan_on_overflow=nan_on_overflow
    )
    buffer = replica_sharded_buffer(array.shape, dtypes.dtype.as_dtype(array.dtype), replica_grouping, shard_over)
    whole = remote_replica_sharded_variable(array, buffer, 0, dtype, name, downcast, replica_grouping, retrieval_mode)
    with get_main_graph() as graph:
        share: Tensor = graph._add_tensor(f"{whole.name}_rts", buffer.tensor_shape, whole.dtype, whole.shape)
    graph.ir._shares[share] = (buffer, 0)
    return whole, share
