"""Does a program from a file stay inside of itself?

In: a `MappedProgram` whose records have their fields. Out: nothing, or an ArchiveError. Every view and edge must lie in
its address space, every number must name something that is there, and every library call must be an ATen operator that
makes, of operands without data, what the file says it makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from openipu.errors import ArchiveError
from openipu.graph.mapped import nodes
from openipu.graph.mapped.elements import UNSIGNED_INT
from openipu.graph.mapped.formats import choose_format
from openipu.graph.mapped.nodes import ProgramNode
from openipu.graph.mapped.program import MAX_POOL_GRADIENT, Edges, LibraryCall, LibraryOp, MappedProgram, Value
from openipu.graph.mapped.views import View
from openipu.ops import find_rule

_DEEPEST = 200
_MOST_TILES, _MOST_REPLICAS = 131_072 * 64, 65_536
_LARGEST_MEMORY = 64 << 30


def check_mapped_program(program: MappedProgram) -> None:
    """Refuse what could not have been written."""
    try:
        _check(program)
    except (TypeError, AttributeError, IndexError, KeyError, ValueError, RuntimeError, OverflowError) as error:
        raise ArchiveError(f"it is damaged ({error!r})") from error


def _check(program: MappedProgram) -> None:
    _check_size(program)
    for variable in program.variables:
        _require(0 <= variable.start <= variable.start + variable.elements <= program.spaces[variable.type.bytes])
        _require(variable.value is None or variable.value.shape == (variable.elements,))
    for size, tile_map in program.tile_maps.items():
        _require(size in program.spaces and tile_map.starts.shape == tile_map.tiles.shape)
        _require(bool((np.diff(tile_map.starts) > 0).all()) and int(tile_map.tiles.max(initial=-1)) < program.tiles)
    for compute_set in program.compute_sets:
        for batch in compute_set.batches:
            known = {entry.name for entry in program.codelets[batch.codelet].fields}
            _require(set(batch.edges) <= known and set(batch.state) <= known)
            _require(int(batch.tiles.max(initial=0)) < program.tiles)
            _require(int(batch.lines.max(initial=0)) < max(1, len(program.lines)))
            for rows in batch.edges.values():
                for edges in rows:
                    _check_edges(program, edges, batch.count)
    for view in (*program.host_reads.values(), *program.host_writes.values()):
        _check_view(program, view)
    for op in program.library_ops:
        _check_library(program, op)
    for node in (*program.programs, *program.functions):
        _check_node(program, node, 0)


def _check_size(program: MappedProgram) -> None:
    """No more memory than the variables have, and than the machine and this one could."""
    _require(
        1 <= program.tiles <= _MOST_TILES and program.tiles_per_ipu >= 1 and 1 <= program.replicas <= _MOST_REPLICAS
    )
    for size, elements in program.spaces.items():
        held = sum(variable.elements for variable in program.variables if variable.type.bytes == size)
        _require(size in (1, 2, 4, 8) and elements == held)
    held = sum(size * elements for size, elements in program.spaces.items())
    remote = sum(one.rows * one.elements * one.type.bytes for one in program.remote_buffers)
    _require(all(one.rows >= 0 and one.elements >= 0 for one in program.remote_buffers))
    _require(all(one.elements >= 0 for one in program.streams))
    _require((held + remote) * program.replicas <= _LARGEST_MEMORY)


def _require(good: bool) -> None:
    if not good:
        raise ValueError("something lies outside of where it should")


def _check_view(program: MappedProgram, view: View) -> None:
    elements = program.spaces[view.type.bytes]
    if view.addresses is not None:
        _require(view.addresses.shape == tuple(view.shape))
        _check_addresses(view.addresses, elements)
        return
    _require(len(view.strides) == len(view.shape) and all(size >= 0 for size in view.shape))
    if view.elements:
        reach = [(size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)]
        low = view.offset + sum(step for step in reach if step < 0)
        high = view.offset + sum(step for step in reach if step > 0)
        _require(0 <= low <= high < elements)


def _check_addresses(addresses: np.ndarray, elements: int) -> None:
    if addresses.size:
        _require(addresses.dtype == np.int64 and int(addresses.min()) >= 0 and int(addresses.max()) < elements)


def _check_edges(program: MappedProgram, edges: Edges, count: int) -> None:
    elements = program.spaces[edges.type.bytes]
    if edges.addresses is not None:
        _require(edges.addresses.shape == (count, edges.length))
        _check_addresses(edges.addresses, elements)
        return
    _require(edges.starts is not None and edges.starts.shape == (count,) and edges.length >= 0)
    assert edges.starts is not None
    if edges.length:
        _check_addresses(edges.starts, elements)
        _check_addresses(edges.starts + (edges.length - 1) * edges.stride, elements)


def _check_library(program: MappedProgram, op: LibraryOp) -> None:
    for view in (*op.inputs, *op.outputs):
        _check_view(program, view)
    values: dict[int, Any] = {
        number: torch.empty(view.shape, dtype=choose_format(view.type), device="meta")
        for number, view in enumerate(op.inputs)
    }
    for call in op.calls:
        if call.kernel == MAX_POOL_GRADIENT:
            _check_pool(call, values)
        if call.kernel:
            format_ = getattr(torch, call.formats[0])
            values[call.results[0]] = torch.empty(call.shapes[0], dtype=format_, device="meta")
            continue
        namespace, name, overload = call.op.split(".")
        _require(namespace == "aten" and find_rule(call.op) is not None)
        function = getattr(getattr(torch.ops.aten, name), overload)
        with torch.device("meta"):
            made = function(
                *_fill(call.args, values), **{key: _fill(item, values) for key, item in call.kwargs.items()}
            )
        results = [made] if isinstance(made, torch.Tensor) else list(made)
        for number, tensor, shape, format_ in zip(call.results, results, call.shapes, call.formats, strict=True):
            if number >= 0:
                _require(tuple(tensor.shape) == tuple(shape) and tensor.dtype is getattr(torch, format_))
                values[number] = tensor
    for number, view in zip(op.returned, op.outputs, strict=True):
        _require(values[number].numel() == view.elements)


def _check_pool(call: LibraryCall, values: dict[int, Any]) -> None:
    """Windows that lie in the input, and one gradient for each of them."""
    grad, given, kernel, stride, padding, _, _, pooled, scaled = call.args
    shape = tuple(values[given.number].shape)
    _require(len(shape) == 4 and isinstance(scaled, bool) and tuple(call.shapes[0]) == shape)
    _require(call.op == "aten.max_pool2d_with_indices_backward.default")
    sizes = []
    for size, window, step, pad in zip(shape[2:], kernel, stride, padding, strict=True):
        _require(window >= 1 and step >= 1 and 0 <= pad <= window)
        sizes.append((size + 2 * pad - window) // step + 1)
    expected = (*shape[:2], *sizes)
    _require(tuple(values[grad.number].shape) == tuple(values[pooled.number].shape) == expected)


def _fill(value: Any, values: dict[int, Any]) -> Any:
    if isinstance(value, Value):
        return values[value.number]
    if isinstance(value, list | tuple):
        return type(value)(_fill(item, values) for item in value)
    return value


def _list_parts(node: ProgramNode) -> Iterable[Any]:
    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        if isinstance(value, tuple):
            for item in value:
                yield from item if isinstance(item, tuple) else (item,)
        else:
            yield value


def _check_node(program: MappedProgram, node: ProgramNode, depth: int) -> None:
    _require(isinstance(node, ProgramNode) and depth < _DEEPEST)
    for kind, name, limit in (
        (nodes.ExecuteNode, "compute_set", len(program.compute_sets)),
        (nodes.LibraryNode, "op", len(program.library_ops)),
        (nodes.CallNode, "function", len(program.functions)),
        (nodes.StreamInNode, "stream", len(program.streams)),
        (nodes.StreamOutNode, "stream", len(program.streams)),
        (nodes.RemoteReadNode, "buffer", len(program.remote_buffers)),
        (nodes.RemoteWriteNode, "buffer", len(program.remote_buffers)),
        (nodes.HostCallNode, "function", len(program.host_functions)),
    ):
        if isinstance(node, kind):
            _require(0 <= getattr(node, name) < limit)
    if isinstance(node, nodes.CopyNode):
        _require(node.source.elements == node.target.elements and node.source.type is node.target.type)
    if isinstance(node, nodes.StampNode):
        _require(
            all(view.elements == 2 and view.type is UNSIGNED_INT for view in (node.target, node.since or node.target))
        )
    if isinstance(node, nodes.ExecuteNode) and node.exit is not None:
        _require(node.exit.elements == 1)
    for part in _list_parts(node):
        if isinstance(part, View):
            _check_view(program, part)
        elif isinstance(part, ProgramNode):
            _check_node(program, part, depth + 1)
