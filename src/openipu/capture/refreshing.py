"""Shapes and strides of a functional graph, computed again where a value has another layout than it was recorded with.

In: a functional graph and the nodes whose source was replaced. Out: the same graph with meta values that agree with
what its ops return.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from openipu.capture.held_values import has_layout
from openipu.capture.torch_private import OpOverload
from openipu.graph import NOTE

aten = torch.ops.aten
_RESHAPES = frozenset({aten.view.default, aten._unsafe_view.default})


def refresh_layouts(graph: fx.Graph, changed: set[fx.Node]) -> None:
    """Follow the values of `changed` nodes through the graph."""
    changed = set(changed)
    with torch.no_grad():
        for node in list(graph.nodes):
            if not any(source in changed for source in node.all_input_nodes):
                continue
            before = node.meta.get("val")
            if node.target is operator.getitem:
                node.meta["val"] = node.args[0].meta["val"][node.args[1]]  # type: ignore[union-attr, index]
            elif isinstance(node.target, OpOverload) and node.target.namespace == "aten":
                node.meta["val"] = _compute(graph, node)
            if _differ(before, node.meta.get("val")):
                changed.add(node)


def _compute(graph: fx.Graph, node: fx.Node) -> Any:
    try:
        return _call(node)
    except RuntimeError:  # a view that this layout does not allow
        if node.target in _RESHAPES:
            node.target = aten.reshape.default
        else:
            source = node.args[0]
            assert isinstance(source, fx.Node)
            with graph.inserting_before(node):
                dense = graph.call_function(aten.clone.default, (source,), {"memory_format": torch.contiguous_format})
            dense.meta = {"val": source.meta["val"].contiguous(), NOTE: node.meta.get(NOTE)}
            node.replace_input_with(source, dense)
        return _call(node)


def _call(node: fx.Node) -> Any:
    args, kwargs = pytree.tree_map_only(fx.Node, lambda source: source.meta["val"], (node.args, dict(node.kwargs)))
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _differ(before: Any, after: Any) -> bool:
    old, new = pytree.tree_leaves(before), pytree.tree_leaves(after)
    return any(
        isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and not has_layout(one, other)
        for one, other in zip(old, new, strict=False)
    )
