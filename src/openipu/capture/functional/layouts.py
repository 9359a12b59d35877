"""Keeps the strides of tensors that are written in place, before a recorded graph is made functional.

In: a recorded graph, in which in-place ops change memory and views show it. Out: the same graph, in which what is
written has the strides of the tensor that it is written to. An in-place op keeps the strides of its target, and its
functional form has strides of its own: without this a later view would show other elements, or fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from openipu.capture.functional.forms import BATCH_NORM, complete_arguments, find_functional_form
from openipu.capture.functional.held_values import HOLD, find_dense_strides, has_layout, is_dense
from openipu.capture.record.schemas import find_written
from openipu.capture.record.torch_private import OpOverload, storage_key
from openipu.graph import NOTE

aten = torch.ops.aten

_STRIDED = frozenset({aten.as_strided.default, aten.as_strided_copy.default})
_VIEW_FORMS: dict[Any, Any] = {
    aten.as_strided_.default: aten.as_strided.default,
    aten.detach_.default: aten.detach.default,
    aten.squeeze_.default: aten.squeeze.default,
    aten.squeeze_.dim: aten.squeeze.dim,
    aten.squeeze_.dims: aten.squeeze.dims,
    aten.t_.default: aten.t.default,
    aten.transpose_.default: aten.transpose.int,
    aten.unsqueeze_.default: aten.unsqueeze.default,
}
_UNKNOWN_IN_PLACE = frozenset({aten.polygamma_.default})  # to torch's functionalisation


def settle_layouts(graph: fx.Graph) -> None:
    """Change the graph in place. New nodes have the notes of the nodes that they are made for."""
    owners: dict[int, fx.Node] = {}  # by memory: the node that made it
    for node in list(graph.nodes):
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            _respell_view(node)
            if node.target in _STRIDED:
                _take_from_owner(node, owners)
            elif node.target._schema.is_mutable:
                _write_back(graph, node)
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            owners.setdefault(storage_key(value), node)


def _respell_view(node: fx.Node) -> None:
    """What changes how a tensor shows its memory becomes the view that shows it so."""
    if node.target is aten.resize_.default:
        shown = node.meta["val"]
        node.args = (node.args[0], list(shown.shape), list(shown.stride()), shown.storage_offset())
        node.target, node.kwargs = aten.as_strided.default, {}
    else:
        node.target = _VIEW_FORMS.get(node.target, node.target)


def _write_back(graph: fx.Graph, node: fx.Node) -> None:
    """Where its functional form has other strides, or there is none: compute beside the target, and copy into it."""
    if node.target in (aten.copy_.default, BATCH_NORM):  # whose functional forms have the right strides
        return
    operation = find_functional_form(node.target)
    value, args = None, ()
    if operation is not None:
        args = complete_arguments(node, operation)
        read, named = pytree.tree_map_only(fx.Node, lambda source: source.meta["val"], (args, dict(node.kwargs)))
        with torch.no_grad():
            value = operation(*read, **named)
    target = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(target, torch.Tensor):
        _write_beside(graph, node)
    elif (is_dense(target) and not has_layout(value, target)) or node.target in _UNKNOWN_IN_PLACE:
        with graph.inserting_before(node):
            made = _add(graph, node, operation, args, node.kwargs, value)
            if value.dtype is not target.dtype:
                converted = torch.empty_like(value, dtype=target.dtype)
                made = _add(graph, node, aten._to_copy.default, (made,), {"dtype": target.dtype}, converted)
        _become_copy(graph, node, find_written(node.target, node.args, node.kwargs)[0], made)


def _write_beside(graph: fx.Graph, node: fx.Node) -> None:
    """Let an op write to copies of its targets, then copy those back. It returns all, some or none of its targets."""
    targets = list(dict.fromkeys(find_written(node.target, node.args, node.kwargs)))
    with graph.inserting_before(node):
        beside = {target: _hold(graph, node, target, find_dense_strides(target.meta["val"])) for target in targets}
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: beside.get(source, source))
    waiting = {id(target.meta["val"]): target for target in targets}
    result = node.meta.get("val")
    if id(result) in waiting:
        target = waiting.pop(id(result))
        with graph.inserting_before(node):
            last = _add(graph, node, node.target, args, kwargs, beside[target].meta["val"])
        _become_copy(graph, node, target, beside[target])
        last = node
    else:
        node.args, node.kwargs, last = args, kwargs, node
        for item in [user for user in node.users if id(user.meta.get("val")) in waiting]:
            target = waiting.pop(id(item.meta["val"]))
            _become_copy(graph, item, target, beside[target])
            last = item
    for target in waiting.values():
        with graph.inserting_after(last):
            last = _add(graph, node, aten.copy_.default, (target, beside[target]), {}, target.meta["val"])
        _become_copy(graph, last, target, beside[target])


def _become_copy(graph: fx.Graph, node: fx.Node, target: fx.Node, value: fx.Node) -> None:
    """The node copies `value` into `target`, with the strides of what it overwrites."""
    with graph.inserting_before(node):
        held = _hold(graph, node, value, find_dense_strides(target.meta["val"]))
    node.target, node.args, node.kwargs = aten.copy_.default, (target, held), {}


def _take_from_owner(node: fx.Node, owners: Mapping[int, fx.Node]) -> None:
    """`as_strided` of a view shows the memory behind it: let it be a view of the tensor that has this memory."""
    source, size, stride, *rest = node.args
    assert isinstance(source, fx.Node)
    shown = source.meta["val"]
    owner = owners[storage_key(shown)]
    offset = rest[0] if rest else node.kwargs.get("storage_offset")
    if owner.meta["val"].dtype is shown.dtype and owner.meta["val"].storage_offset() == 0:
        node.args = (owner, size, stride, shown.storage_offset() if offset is None else offset)
        node.kwargs = {}


def _hold(graph: fx.Graph, origin: fx.Node, value: fx.Node, strides: Sequence[int]) -> fx.Node:
    return _add(graph, origin, HOLD, (value, list(strides)), {}, HOLD(value.meta["val"], list(strides)))


def _add(
    graph: fx.Graph, origin: fx.Node, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], value: Any
) -> fx.Node:
    node: fx.Node = graph.call_function(target, args, dict(kwargs))
    node.meta = {"val": value, NOTE: origin.meta.get(NOTE)}
    return node
