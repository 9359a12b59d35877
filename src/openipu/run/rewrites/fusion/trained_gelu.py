"""GELU that a model writes out with a tanh, and its gradient, as one operator each.

PyTorch's `gelu` and `gelu_backward` stand for what the model wrote and for what autograd made of that: two ways through
memory instead of twenty, and nothing kept but the input. What a part of the graph computes is not read from its form,
which has many: it is tried on a few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import is_pointwise
from openipu.run.drafts.rules import Match, Rule, Search, Writer, find_match, matched
from openipu.run.rewrites.fusion import written_gelu
from openipu.run.rewrites.fusion.written_gelu import WRITTEN_GELU

aten = torch.ops.aten

_POINTS = torch.linspace(-6, 6, 97, dtype=torch.float64)
_GRADIENTS = torch.cos(7 * _POINTS)


def _find(root: fx.Node) -> Match | None:
    """GELU that is written out, and its gradient."""
    found = find_match(WRITTEN_GELU, root)
    if found is None:
        return None
    source = found["x"]
    between = [node for node in found.operators if node is not root]
    backward = _find_gradient(_list_following(root.graph, source), source, root, between)
    if backward is None:
        return None
    gradient, end, behind = backward
    return matched(root, *between, *behind, end, x=source, gradient=gradient, end=end)


def _call_both(match: Match, writer: Writer) -> fx.Node:
    end = match["end"]
    with writer.before(end):
        operands = (match["gradient"], match["x"])
        writer.replace(end, writer.call(aten.gelu_backward.default, *operands, approximate="tanh", like=end))
    return writer.call(aten.gelu.default, match["x"], approximate="tanh")


# What nobody differentiates first: its operators would stand between others and their gradients.
RULES = (
    *written_gelu.RULES,
    Rule("written-out GELU and its gradient", Search((aten.mul.Tensor,), _find), _call_both, shared=frozenset({"end"})),
)


def _list_following(graph: fx.Graph, source: fx.Node) -> list[fx.Node]:
    """The nodes behind one, as the graph is now."""
    nodes = iter(graph.nodes)
    for node in nodes:
        if node is source:
            break
    return list(nodes)


def _find_gradient(
    following: Sequence[fx.Node], source: fx.Node, last: fx.Node, between: Sequence[fx.Node]
) -> tuple[fx.Node, fx.Node, set[fx.Node]] | None:
    """The gradient of the result, that of the source, and what is computed between them, if all that is kept of forward
    is kept for these."""
    kept = {user for node in between for user in node.users} - {*between, last}
    gradient = _find_incoming(kept, between)
    if gradient is None or not _is_alike(gradient, source):
        return None
    values: dict[fx.Node, Any] = {source: _POINTS, gradient: _GRADIENTS}
    expected = aten.gelu_backward(_GRADIENTS, _POINTS, approximate="tanh")
    behind: dict[fx.Node, set[fx.Node]] = {}  # what each node is computed from, between forward and itself
    for node in following:
        inputs = node.all_input_nodes
        if node in values or node is last or not all(value in values for value in inputs):
            continue
        if not is_pointwise(node) or not _is_alike(node, source):
            continue
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        compute: Any = node.target
        values[node] = compute(*args, **kwargs)
        behind[node] = {node}.union(*(behind.get(value, ()) for value in inputs))
        if kept <= behind[node] and torch.allclose(values[node], expected, rtol=1e-5, atol=1e-6):
            return gradient, node, behind[node] - {node}
    return None


def _find_incoming(kept: set[fx.Node], between: Sequence[fx.Node]) -> fx.Node | None:
    """The one value that is multiplied with values of forward."""
    products = [node for node in kept if node.target is aten.mul.Tensor]
    factors = {value for node in products for value in node.all_input_nodes}.difference(between)
    return factors.pop() if len(factors) == 1 else None


def _is_alike(node: fx.Node, source: fx.Node) -> bool:
    value, expected = node.meta.get("val"), source.meta["val"]
    return isinstance(value, torch.Tensor) and value.shape == expected.shape and value.dtype is expected.dtype
