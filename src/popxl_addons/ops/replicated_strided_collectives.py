"""Collectives over groups of replicas that need not be neighbours.

PopXL's own collectives take any grouping here, so these are the same by the names that applications import.
"""

from __future__ import annotations

import popxl
from popxl import ReplicaGrouping, Tensor, ops
from popxl.ops.collectives.collectives import CollectiveOps
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce,
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.utils import null_context

__all__ = [
    "replicated_all_gather_strided",
    "replicated_all_reduce_strided",
    "replicated_all_reduce_strided_graph",
    "replicated_all_reduce_strided_identical_grad_inputs",
    "replicated_all_reduce_strided_identical_inputs",
    "replicated_reduce_scatter_strided",
]

replicated_all_reduce_strided = replicated_all_reduce
replicated_all_reduce_strided_identical_inputs = replicated_all_reduce_identical_inputs
replicated_all_reduce_strided_identical_grad_inputs = replicated_all_reduce_identical_grad_inputs


def replicated_all_gather_strided(t: Tensor, group: ReplicaGrouping | None = None) -> Tensor:
    """The shards of all replicas of a group, joined; in the shape of the whole if ``t`` is a shard of one."""
    return ops.collectives.replicated_all_gather(t, group=group)


def replicated_reduce_scatter_strided(
    t: Tensor,
    op: CollectiveOps = "add",
    group: ReplicaGrouping | None = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """Reduce over the replicas of a group; each keeps its share, as a shard of the whole if so configured."""
    return ops.collectives.replicated_reduce_scatter(
        t,
        op=op,
        group=group,
        configure_output_for_replicated_tensor_sharding=configure_output_for_replicated_tensor_sharding,
    )


def replicated_all_reduce_strided_graph(
    tensors: NamedTensors,
    op: CollectiveOps = "add",
    group: ReplicaGrouping | None = None,
    use_io_tiles: bool = False,
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that reduces tensors like these, and the names of its outputs."""
    graph = popxl.gcg().ir.create_empty_graph("replica_reduce")
    inputs = {}
    with graph, popxl.in_sequence(False), popxl.io_tiles() if use_io_tiles else null_context():
        for name, tensor in zip(*tensors.unpack(), strict=True):
            inputs[name] = popxl.graph_input(tensor.shape, tensor.dtype, tensor.name, meta_shape=tensor.meta_shape)
            local = ops.io_tile_copy(inputs[name]) if use_io_tiles else inputs[name]
            popxl.graph_output(replicated_all_reduce_strided(local, op, group))
    return GraphWithNamedArgs(graph, NamedTensors.from_dict(inputs)), list(inputs)
