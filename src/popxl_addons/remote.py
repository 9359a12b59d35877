"""Remote buffers for sets of variables, and graphs that load and store such sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager

import popxl
from popxl import ReplicaGrouping, ops
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.rts import replica_sharded_spec
from popxl_addons.utils import null_context
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

__all__ = ["create_remote_buffer", "load_remote_graph", "named_buffers", "named_variable_buffers", "store_remote_graph"]


class NamedRemoteBuffers(DotTree[popxl.RemoteBuffer]):
    """Remote buffers by name."""


def named_buffers(
    tensors: NamedTensors,
    entries: int = 1,
    shard_over: ReplicaGrouping | None = None,
    *,
    sharded_threshold: int | None = None,
) -> NamedRemoteBuffers:
    """A buffer for each tensor, sharded where the tensor can be."""
    buffers = {}
    for name, tensor in tensors.to_dict().items():
        spec = replica_sharded_spec(tensor, shard_over, threshold=sharded_threshold)
        buffers[name] = _whole_buffer(spec, entries)
    return NamedRemoteBuffers.from_dict(buffers)


def named_variable_buffers(
    factories: NamedVariableFactories,
    entries: int = 1,
    shard_over_dict: Mapping[str, int] | int | bool = True,
    *,
    sharded_threshold: int | None = None,
) -> NamedRemoteBuffers:
    """A buffer for each variable.

    ``shard_over_dict``: over how many replicas of its group a variable is sharded; for all (a number, or ``True`` for
    the whole group and ``False`` for none) or by name. ``sharded_threshold`` leaves variables with fewer elements
    whole, and those that the group does not divide evenly.
    """
    buffers = {}
    for name, factory in factories.to_dict().items():
        spec = popxl.TensorSpec(shape=factory.shape, dtype=factory.dtype, meta_shape=factory.meta_shape)
        shards = _count_shards(name, factory, shard_over_dict)
        if sharded_threshold is not None:
            elements = math.prod(spec.shape)
            shards = shards if elements >= sharded_threshold and elements % (shards or 1) == 0 else 1
        buffers[name] = create_remote_buffer(spec, entries, factory.replica_grouping, shards)
    return NamedRemoteBuffers.from_dict(buffers)


def _count_shards(name: str, factory: VariableFactory, wanted: Mapping[str, int] | int | bool) -> int | None:
    replicas = factory.replica_grouping.group_size
    if isinstance(wanted, Mapping):
        return wanted.get(name)
    if isinstance(wanted, bool):
        return replicas if wanted else 1
    if not isinstance(wanted, int):
        raise ValueError(f"shard_over_dict is a number, a truth value or numbers by name, not {wanted!r}")
    if not 1 <= wanted <= replicas:
        raise ValueError(f"{name!r} cannot be sharded over {wanted} of {replicas} replicas")
    return wanted


def create_remote_buffer(
    spec: popxl.TensorSpec | popxl.Tensor,
    entries: int = 1,
    replica_group: ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> popxl.RemoteBuffer:
    """A buffer for tensors of this form, or for their shards over ``shard_over`` replicas (the group, unless said)."""
    group = replica_group or popxl.gcg().ir.replica_grouping()
    shards = shard_over or group.group_size
    if spec.meta_shape or shards == 1:
        return _whole_buffer(spec, entries)
    elements = math.prod(spec.shape)
    if elements % shards:
        raise ValueError(f"{elements} elements do not divide into {shards} shards; shard over fewer replicas, or none")
    shape = (group.num_groups, *spec.shape) if group.num_groups > 1 else tuple(spec.shape)
    return popxl.replica_sharded_buffer(shape, spec.dtype, group, shards, entries)


def _whole_buffer(spec: popxl.TensorSpec | popxl.Tensor, entries: int) -> popxl.RemoteBuffer:
    buffer = popxl.remote_buffer(tuple(spec.shape), spec.dtype, entries)
    if spec.meta_shape:
        buffer.meta_shape = spec.meta_shape
    return buffer


def load_remote_graph(
    buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that loads one entry of each buffer, whose index is its input; and the names of its outputs."""
    graph = popxl.gcg().ir.create_empty_graph("load_remote")
    by_name = sorted(buffers.to_dict().items())
    with graph, popxl.transforms.merge_exchange(), popxl.in_sequence(False), _tiles(use_io_tiles):
        place = popxl.graph_input((), popxl.int32, "load_index")
        for name, buffer in by_name:
            _make_room(buffer, entries)
            popxl.graph_output(ops.remote_load(buffer, place, name))
    return GraphWithNamedArgs(graph), [name for name, _ in by_name]


def load_remote(buffers: NamedRemoteBuffers, entry: int | popxl.Tensor = 0, use_io_tiles: bool = False) -> NamedTensors:
    """Load one entry of each buffer."""
    with popxl.transforms.merge_exchange(), popxl.in_sequence(False), _tiles(use_io_tiles):
        loaded = {name: ops.remote_load(buffer, entry, name) for name, buffer in buffers.to_dict().items()}
    return NamedTensors.from_dict(loaded)


def store_remote_graph(buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False) -> GraphWithNamedArgs:
    """A graph that stores a tensor into each buffer: first the index of the entry, then inputs by name."""
    graph = popxl.gcg().ir.create_empty_graph("store_remote")
    inputs = {}
    with graph, popxl.transforms.merge_exchange(), popxl.in_sequence(False), _tiles(use_io_tiles):
        place = popxl.graph_input((), popxl.int32, "store_index")
        for name, buffer in sorted(buffers.to_dict().items()):
            _make_room(buffer, entries)
            shape, dtype, whole = buffer.tensor_shape, buffer.tensor_dtype, buffer.meta_shape
            inputs[name] = popxl.graph_input(shape, dtype, name, meta_shape=whole)
            ops.remote_store(buffer, place, inputs[name])
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(inputs))


def store_remote(
    buffers: NamedRemoteBuffers, tensors: NamedTensors, entry: int | popxl.Tensor = 0, use_io_tiles: bool = False
) -> None:
    """Store tensors into one entry of the buffers of the same names."""
    by_name = buffers.to_dict()
    with popxl.transforms.merge_exchange(), popxl.in_sequence(False), _tiles(use_io_tiles):
        for name, tensor in tensors.to_dict().items():
            if name in by_name:
                ops.remote_store(by_name[name], entry, tensor)


def _make_room(buffer: popxl.RemoteBuffer, entries: int) -> None:
    if buffer.entries < entries:
        buffer.entries = entries


def _tiles(use_io_tiles: bool) -> AbstractContextManager[None]:
    return popxl.io_tiles() if use_io_tiles else null_context()
