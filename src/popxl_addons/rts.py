"""Replicated tensor sharding: each replica holds a shard, all-gathers the whole, and gets its share of gradients."""

from __future__ import annotations

import math

import popxl
from popxl import ReplicaGrouping, TensorSpec, ops
from popxl.ops.collectives.collectives import CollectiveOps
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.replicated_strided_collectives import (
    replicated_all_gather_strided,
    replicated_all_reduce_strided,
    replicated_reduce_scatter_strided,
)
from popxl_addons.utils import null_context

__all__ = [
    "all_gather_replica_sharded_graph",
    "gather_replica_sharded_tensor",
    "reduce_replica_sharded_graph",
    "reduce_replica_sharded_tensor",
    "replica_sharded_spec",
]


def replica_sharded_spec(
    t: popxl.Tensor | TensorSpec, shard_over: ReplicaGrouping | None = None, *, threshold: int | None = None
) -> TensorSpec:
    """The form of a shard of ``t`` over the replicas of a group.

    That of ``t`` itself if it is a shard already, or cannot be divided evenly. ``threshold`` leaves tensors with fewer
    elements whole.
    """
    spec = t if isinstance(t, TensorSpec) else t.spec
    if spec.meta_shape or not _is_sharded(math.prod(spec.shape), _group(shard_over), threshold):
        return spec
    return TensorSpec((math.prod(spec.shape) // _group(shard_over).group_size,), spec.dtype, tuple(spec.shape))


def gather_replica_sharded_tensor(
    t: popxl.Tensor, use_io_tiles: bool = False, replica_group: ReplicaGrouping | None = None
) -> popxl.Tensor:
    """The whole of a shard; a tensor that is no shard stays as it is. ``use_io_tiles``: gathered there, then copied."""
    if t.meta_shape:
        with popxl.io_tiles() if use_io_tiles else null_context():
            t = replicated_all_gather_strided(t, group=_group(replica_group))
    return ops.io_tile_copy(t) if use_io_tiles else t


def all_gather_replica_sharded_graph(
    tensors: NamedTensors,
    use_io_tiles: bool = False,
    replica_groups: NamedReplicaGrouping | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that gathers tensors like these, and the names of its outputs in their order."""
    ir = popxl.gcg().ir
    groups = (replica_groups or NamedReplicaGrouping()).to_dict()
    graph = ir.create_empty_graph("all_gather")
    inputs = {}
    with graph, popxl.in_sequence(False):
        for name, tensor in zip(*tensors.unpack(), strict=True):
            inputs[name] = _like(tensor)
            group = (groups[name] if replica_groups is not None else ir.replica_grouping()).const_rg
            popxl.graph_output(gather_replica_sharded_tensor(inputs[name], use_io_tiles, group))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(inputs)), list(inputs)


def reduce_replica_sharded_tensor(
    t: popxl.Tensor,
    op: CollectiveOps = "add",
    replica_group: ReplicaGrouping | None = None,
    shard_group: ReplicaGrouping | None = None,
    *,
    threshold: int | None = None,
) -> popxl.Tensor:
    """Reduce over the replicas of ``replica_group``; keep this one's shard in ``shard_group``, if it can be cut."""
    replicas = _group(replica_group)
    shards = shard_group or replicas
    if not _is_sharded(t.nelms, shards, threshold):
        return replicated_all_reduce_strided(t, op=op, group=replicas)
    if replicas == shards:
        return replicated_reduce_scatter_strided(
            t, op=op, group=replicas, configure_output_for_replicated_tensor_sharding=True
        )
    if replicas.group_size > 1:
        t = replicated_all_reduce_strided(t, op=op, group=replicas)
    return ops.collectives.replica_sharded_slice(t, group=shards)


def reduce_replica_sharded_graph(
    tensors: NamedTensors,
    op: CollectiveOps = "add",
    use_io_tiles: bool = False,
    shard_groups: NamedReplicaGrouping | None = None,
    replica_group: ReplicaGrouping | None = None,
    *,
    threshold: int | None = None,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that reduces and shards tensors like these, and the names of its outputs in their order."""
    groups = (shard_groups or NamedReplicaGrouping()).to_dict()
    graph = popxl.gcg().ir.create_empty_graph("replica_reduce")
    inputs = {}
    with graph, popxl.in_sequence(False), popxl.io_tiles() if use_io_tiles else null_context():
        for name, tensor in zip(*tensors.unpack(), strict=True):
            inputs[name] = _like(tensor)
            local = ops.io_tile_copy(inputs[name]) if use_io_tiles else inputs[name]
            shards = groups.get(name, replica_group)
            popxl.graph_output(reduce_replica_sharded_tensor(local, op, replica_group, shards, threshold=threshold))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(inputs)), list(inputs)


def _group(group: ReplicaGrouping | None) -> ReplicaGrouping:
    return group or popxl.gcg().ir.replica_grouping()


def _is_sharded(elements: int, group: ReplicaGrouping, threshold: int | None) -> bool:
    large = threshold is None or elements >= threshold
    return bool(group.group_size > 1 and elements % group.group_size == 0 and large)


def _like(tensor: popxl.Tensor) -> popxl.Tensor:
    """An input of the current graph for such a tensor."""
    return popxl.graph_input(tensor.shape, tensor.dtype, tensor.name, meta_shape=tensor.meta_shape)
