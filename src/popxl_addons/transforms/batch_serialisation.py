"""Batch serialisation: a graph for one micro-batch becomes one for many, with activations in remote buffers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import popxl
from popxl import HostToDeviceStream, ReplicaGrouping
from popxl.transforms.autodiff import ExpectedConnectionType
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.remote import create_remote_buffer
from popxl_addons.transforms.autodiff import remap_grad_info
from popxl_addons.transforms.batch_serial_loop import BatchSerialLoop, RemoteHandle

__all__ = [
    "BatchSerialResult",
    "RemoteHandle",
    "batch_serial_buffer",
    "batch_serialise",
    "batch_serialise_fwd_and_grad",
]

IoMode = Literal["compute", "io", "io_overlapped"]
Handle: TypeAlias = RemoteHandle | tuple[Any, ...]  # or a buffer and its row offset
Sources: TypeAlias = Mapping[popxl.Tensor, HostToDeviceStream | Handle]


@dataclass
class BatchSerialResult:
    """The graph for many micro-batches, and where the tensors of the given graph were stored."""

    graph: GraphWithNamedArgs
    stored_buffers: dict[popxl.Tensor, RemoteHandle]
    _remap_dict: dict[popxl.Tensor, popxl.Tensor]

    def remap_tensors(self, ts: NamedTensors) -> NamedTensors:
        """Inputs of the given graph as inputs of the new one."""
        return ts.remap(self._remap_dict)


def batch_serial_buffer(
    t: popxl.Tensor | popxl.TensorSpec, steps: int = 1, rows: int = 1, shard_group: ReplicaGrouping | None = None
) -> popxl.RemoteBuffer:
    """A buffer for a tensor: a row for each layer that shares it, with an entry for each micro-batch."""
    shard_over = shard_group.group_size if shard_group is not None else 1
    return create_remote_buffer(t, entries=steps * rows, replica_group=shard_group, shard_over=shard_over)


def _as_handle(value: Any) -> Any:
    return RemoteHandle(*value) if isinstance(value, tuple) else value


def batch_serialise(
    graph: GraphWithNamedArgs,
    steps: int,
    load_handles: Sources,
    store_streams: Mapping[popxl.Tensor, popxl.DeviceToHostStream],
    store_buffers: Mapping[popxl.Tensor, Handle],
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    io_mode: IoMode = "io",
) -> BatchSerialResult:
    """A graph that runs the given one for ``steps`` micro-batches. Its first input is the row of the remote buffers.

    ``load_handles``: for inputs, a stream or the place in a remote buffer; other inputs stay inputs.
    ``store_streams``, ``store_buffers``: for outputs (or inputs), where each micro-batch's goes.
    ``seed_input``: an input that gets a random seed of its own in each pass; the row is then followed by the first one.
    ``rows``: for how many rows the graph will be called. ``io_mode``: transfers by the compute tiles, by I/O tiles, or
    by I/O tiles while the compute tiles compute.
    """
    if io_mode not in ("compute", "io", "io_overlapped"):
        raise ValueError(f"io_mode is compute, io or io_overlapped, not {io_mode!r}")
    if rows < 1:
        raise ValueError(f"a buffer has one row or more, so rows cannot be {rows}")
    if io_mode != "compute" and graph.graph.ir._pb_ir.getSessionOptions().numIOTiles < 1:
        raise ValueError(f"io_mode {io_mode!r} needs IO tiles: set `numIOTiles` of the session options")
    if io_mode == "io_overlapped" and steps < 2:
        logging.warning("Overlapped I/O needs two micro-batches or more; they go in turn, by I/O tiles.")
        io_mode = "io"
    sources = {t: _as_handle(handle) for t, handle in load_handles.items()}
    buffers = {t: _as_handle(handle) for t, handle in store_buffers.items()}
    loop = BatchSerialLoop(
        graph, steps, rows, sources, dict(store_streams), buffers, seed_input, use_io_tiles=io_mode != "compute"
    )
    whole, kept = loop.build(overlapped=io_mode == "io_overlapped")
    stored = {
        t: source if isinstance(source := sources.get(t), RemoteHandle) else handle
        for t, handle in buffers.items()
        if t in graph.graph
    }
    return BatchSerialResult(GraphWithNamedArgs(whole, graph.args.remap(kept)), stored, kept)


def batch_serialise_fwd_and_grad(
    forward_graph: GraphWithNamedArgs,
    gradient_graph: GraphWithNamedArgs,
    named_inputs_for_grad_graph: NamedTensors,
    steps: int,
    load_handles: Sources,
    store_streams: Mapping[popxl.Tensor, popxl.DeviceToHostStream],
    store_buffers: Mapping[popxl.Tensor, Handle | ReplicaGrouping],
    seed_input: popxl.Tensor | None = None,
    rows: int = 1,
    io_mode: IoMode = "io",
) -> tuple[BatchSerialResult, BatchSerialResult]:
    """Both graphs of a layer for ``steps`` micro-batches; activations that backward needs go through remote buffers.

    ``named_inputs_for_grad_graph``: inputs of forward, mostly its variables, that become named inputs of backward
    instead. A replica grouping in ``store_buffers`` has an activation's buffer sharded over it.
    """
    info = gradient_graph.grad_graph_info
    sources = {t: _as_handle(handle) for t, handle in load_handles.items()}
    shard_groups = {t: group for t, group in store_buffers.items() if isinstance(group, ReplicaGrouping)}
    buffers = {t: _as_handle(handle) for t, handle in store_buffers.items() if t not in shard_groups}
    names = {t: name for name, t in named_inputs_for_grad_graph.named_tensors.items()}
    inputs = list(zip(gradient_graph.graph.inputs, info.expected_inputs, strict=False))
    activations = [(own, c.fwd_tensor) for own, c in inputs if c.connection_type == ExpectedConnectionType.Fwd]

    for _, t in activations:
        if t in buffers or t in names:
            continue
        if isinstance(sources.get(t), RemoteHandle):
            buffers[t] = sources[t]  # it is in remote memory already
        else:
            group = shard_groups.get(t)
            buffers[t] = RemoteHandle(batch_serial_buffer(t, steps, rows, group), 0, group)
    forward = batch_serialise(forward_graph, steps, sources, store_streams, buffers, seed_input, rows, io_mode)

    backward_sources: dict[popxl.Tensor, Any] = {}
    named = {}
    for own, t in activations:
        if t in names:
            named[names[t]] = own
        else:
            backward_sources[own] = forward.stored_buffers[t]
    for place, (own, connection) in enumerate(inputs):
        if connection.connection_type != ExpectedConnectionType.FwdGrad:
            continue
        if own not in sources:
            raise ValueError(
                f"input {place} of the gradient graph, {own}, is a gradient: load_handles has to have its source"
            )
        backward_sources[own] = sources[own]
    gradient_graph.args = NamedTensors.from_dict({**named, **gradient_graph.args.named_tensors})
    backward = batch_serialise(gradient_graph, steps, backward_sources, store_streams, buffers, None, rows, io_mode)
    backward.graph.grad_graph_info = remap_grad_info(info, forward_graph.graph, gradient_graph.graph)
    return forward, backward
