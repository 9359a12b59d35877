"""`as_strided` without strides: in a functional graph it reads a row of numbers, whatever its source's layout will be.

In: a functional graph whose meta values have the strides that were recorded. Out: the same graph, in which
`as_strided` and its relatives take a flat tensor that holds the elements in the order of that memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from openipu.capture.failures import refuse_strided_view
from openipu.capture.held_values import is_dense
from openipu.graph import NOTE, note_of

aten = torch.ops.aten

_READS = frozenset({aten.as_strided.default, aten.as_strided_copy.default})
_WRITES = aten.as_strided_scatter.default


def flatten_strided_views(graph: fx.Graph) -> None:
    """Change the graph in place."""
    for node in list(graph.nodes):
        if node.target in _READS or node.target is _WRITES:
            _flatten(graph, node)


def _flatten(graph: fx.Graph, node: fx.Node) -> None:
    given = {
        argument.name: value
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False)  # type: ignore[union-attr]
    } | dict(node.kwargs)
    source = given["self"]
    shown = source.meta["val"]
    place = [given["size"], given["stride"]]
    offset = given.get("storage_offset")
    offset = (shown.storage_offset() if offset is None else offset) - shown.storage_offset()
    with graph.inserting_before(node):
        kept = _drop_repeated(graph, node, source)
        memory = kept.meta["val"]
        if not is_dense(memory) or offset < 0 or (node.target is _WRITES and kept is not source):
            raise refuse_strided_view(list(shown.shape), list(shown.stride()), note_of(node).line)
        order = sorted(range(memory.dim()), key=memory.stride, reverse=True)
        turned = _add(graph, node, aten.permute.default, kept, order) if order != sorted(order) else kept
        row = _add(graph, node, aten.view.default, turned, [memory.numel()]) if memory.dim() != 1 else turned
        if node.target in _READS:
            _check_reach(row, *place, offset, node)
            node.args, node.kwargs = (row, *place, offset), {}
            return
        _check_reach(row, *place, offset, node)
        written = _add(graph, node, _WRITES, row, given["src"], *place, offset)
        # Back to the shape of the source: the node itself is the last of these, because others know it.
        back = _add(graph, node, aten.view.default, written, list(turned.meta["val"].shape))
    node.target, node.kwargs = aten.permute.default, {}
    node.args = (back, sorted(range(len(order)), key=order.__getitem__))


def _drop_repeated(graph: fx.Graph, node: fx.Node, source: fx.Node) -> fx.Node:
    """One of each set of elements that share their place in memory."""
    kept = source
    for dimension in reversed(range(source.meta["val"].dim())):
        value = kept.meta["val"]
        if value.stride(dimension) == 0 and value.shape[dimension] > 1:
            kept = _add(graph, node, aten.select.int, kept, dimension, 0)
    return kept


def _check_reach(row: fx.Node, size: Sequence[int], stride: Sequence[int], offset: int, node: fx.Node) -> None:
    last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    if 0 not in size and last >= row.meta["val"].numel():
        shown = row.meta["val"]
        raise refuse_strided_view(list(shown.shape), list(shown.stride()), note_of(node).line)


def _add(graph: fx.Graph, origin: fx.Node, target: Any, source: fx.Node, *arguments: Any) -> fx.Node:
    node: fx.Node = graph.call_function(target, (source, *arguments))
    read = [argument.meta["val"] if isinstance(argument, fx.Node) else argument for argument in arguments]
    with torch.no_grad():
        node.meta = {"val": target(source.meta["val"], *read), NOTE: origin.meta.get(NOTE)}
    return node
