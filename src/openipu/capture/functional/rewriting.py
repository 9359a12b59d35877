"""Rewrites in-place ops into functional ones, node by node, where that is plainly right.

In: a recorded graph. Out: the same graph with its in-place ops replaced, or None where a view would have to be written
through. The rule: all nodes that show the whole of a written tensor read its latest value; a view that shows a part of
it, or shows it in another shape, must be made and last used between two writes.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from openipu.capture.functional.forms import BATCH_NORM, complete_arguments, find_functional_form
from openipu.capture.functional.held_values import has_layout
from openipu.capture.record.recorder import META
from openipu.capture.record.schemas import find_written
from openipu.capture.record.torch_private import OpOverload, storage_key
from openipu.graph import NOTE

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class RewrittenResults:
    """What the results and the written placeholders have become."""

    results: tuple[fx.Node, ...]
    written: Mapping[str, fx.Node]


@dataclass(frozen=True, slots=True)
class _FunctionalForm:
    """How one in-place op is replaced."""

    operation: Any
    value: torch.Tensor  # what it returns: of a wider dtype than what was written, it must be rounded
    source_is_value: bool  # a copy that needs no op at all


@dataclass(eq=False)
class _Memory:
    """One storage that some op writes."""

    geometry: tuple[Any, ...]  # of the written tensor: all writes must be to the same
    writes: list[int] = field(default_factory=list)  # positions
    whole: set[fx.Node] = field(default_factory=set)  # nodes that show all of it
    placeholder: fx.Node | None = None
    latest: fx.Node | None = None


def rewrite_mutations(graph: fx.Graph, results: tuple[fx.Node, ...]) -> RewrittenResults | None:
    """Rewrite in place, or return None and leave the graph as it is."""
    nodes = list(graph.nodes)
    position = {node: index for index, node in enumerate(nodes)}
    memories = _find_written_memories(nodes, position)
    if memories is None or not _check_views(nodes, position, memories, set(results)):
        return None
    owned = {storage_key(node.meta["val"]) for node in nodes if node.op == "placeholder"}
    forms: dict[fx.Node, _FunctionalForm] = {}
    for node in nodes:
        if _is_mutable(node) and node.target is not BATCH_NORM:
            form = _plan_functional_form(node, owned)
            if form is None:
                return None
            forms[node] = form
    owners = {node: memory for memory in memories.values() for node in memory.whole}

    def read_latest(node: fx.Node) -> fx.Node:
        memory = owners.get(node)
        return node if memory is None or memory.latest is None else memory.latest

    for node in nodes:
        targets = find_written(node.target, node.args, node.kwargs) if _is_mutable(node) else []
        if any(source in owners for source in node.all_input_nodes):
            node.args = fx.map_arg(node.args, read_latest)
            node.kwargs = fx.map_arg(node.kwargs, read_latest)
        if node.target is BATCH_NORM:
            _rewrite_batch_norm(graph, node, [owners[target] for target in targets])
        elif targets:
            owners[targets[0]].latest = _rewrite_node(graph, node, forms[node])
    written = {
        memory.placeholder.name: memory.latest
        for memory in memories.values()
        if memory.placeholder is not None and memory.latest is not None
    }
    return RewrittenResults(tuple(read_latest(node) for node in results), written)


def _find_written_memories(nodes: list[fx.Node], position: dict[fx.Node, int]) -> dict[int, _Memory] | None:
    memories: dict[int, _Memory] = {}
    for node in nodes:
        if not _is_mutable(node):
            continue
        for target in find_written(node.target, node.args, node.kwargs):
            value = target.meta["val"]
            memory = memories.setdefault(storage_key(value), _Memory(_geometry(value)))
            if memory.geometry != _geometry(value) or _geometry(value)[2] != 0 or _has_hidden_parts(value):
                return None
            memory.writes.append(position[node])
    for node in nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        found = memories.get(storage_key(value))
        if found is None:
            continue
        if node.op == "placeholder":
            found.placeholder = node
            if _geometry(value) != found.geometry:
                return None
        if _geometry(value) == found.geometry:
            found.whole.add(node)
    return memories


def _check_views(
    nodes: list[fx.Node], position: dict[fx.Node, int], memories: dict[int, _Memory], results: set[fx.Node]
) -> bool:
    """No part of a written tensor may be held across a write."""
    for node in nodes:
        for value in _tensor_values(node):
            memory = memories.get(storage_key(value))
            if memory is None or node in memory.whole:
                continue
            made = position[node]
            last = len(nodes) if node in results else max((position[user] for user in node.users), default=made)
            if any(made < write < last for write in memory.writes):
                return False
    return True


def _rewrite_node(graph: fx.Graph, node: fx.Node, form: _FunctionalForm) -> fx.Node:
    """The node that now holds what `node` wrote."""
    if form.source_is_value:
        source = node.args[1]
        assert isinstance(source, fx.Node)
        return source
    node.args = complete_arguments(node, form.operation)
    node.target = form.operation
    if form.value.dtype == node.meta["val"].dtype:
        return node
    with graph.inserting_after(node):
        rounded = graph.call_function(aten._to_copy.default, (node,), {"dtype": node.meta["val"].dtype})
    rounded.meta.update(node.meta)
    node.meta["val"] = form.value
    return rounded


def _rewrite_batch_norm(graph: fx.Graph, node: fx.Node, written: list[_Memory]) -> None:
    """Training batch norm returns its new statistics behind its three results."""
    statistics = [node.args[3], node.args[4]]
    node.target = aten._native_batch_norm_legit_functional.default
    values = list(node.meta["val"])
    after = node
    for index, (source, memory) in enumerate(zip(statistics, written, strict=True)):
        assert isinstance(source, fx.Node)
        value = torch.empty_like(source.meta["val"], device=META)
        values.append(value)
        with graph.inserting_after(after):
            after = graph.call_function(operator.getitem, (node, 3 + index))
        after.meta.update({"val": value, NOTE: node.meta.get(NOTE)})
        memory.latest = after
    node.meta["val"] = tuple(values)


def _plan_functional_form(node: fx.Node, owned: set[int]) -> _FunctionalForm | None:
    operation = find_functional_form(node.target)
    if operation is None:
        return None
    completed = complete_arguments(node, operation)
    args, kwargs = pytree.tree_map_only(fx.Node, lambda argument: argument.meta["val"], (completed, dict(node.kwargs)))
    target = node.meta["val"]
    with torch.no_grad():
        value = operation(*args, **kwargs)
    if not isinstance(value, torch.Tensor) or value.shape != target.shape or not has_layout(value, target):
        return None
    return _FunctionalForm(operation, value, _copies_all(node, owned))


def _copies_all(node: fx.Node, owned: set[int]) -> bool:
    """`x.copy_(y)` of a `y` that could stand for `x` as it is. What the caller owns must still be copied."""
    if node.target is not aten.copy_.default or not isinstance(node.args[1], fx.Node):
        return False
    target, source = node.meta["val"], node.args[1].meta["val"]
    same = (target.shape, target.dtype) == (source.shape, source.dtype) and has_layout(target, source)
    return same and storage_key(source) not in owned


def _is_mutable(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and bool(node.target._schema.is_mutable)


def _geometry(value: torch.Tensor) -> tuple[Any, ...]:
    return (tuple(value.shape), tuple(value.stride()), value.storage_offset(), value.dtype)


def _has_hidden_parts(value: torch.Tensor) -> bool:
    """Does the memory hold more than this tensor shows, or show an element twice?"""
    return value.numel() * value.element_size() != value.untyped_storage().nbytes()


def _tensor_values(node: fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return [value]
    return [item for item in value if isinstance(item, torch.Tensor)] if isinstance(value, list | tuple) else []
