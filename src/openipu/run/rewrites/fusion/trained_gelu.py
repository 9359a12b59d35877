"""GELU that a model writes out with a tanh, and its gradient, as one operator each.

In: a draft of a training program. Out: the same draft, in which PyTorch's `gelu` and `gelu_backward` stand for what the
model wrote and for what autograd made of that: two ways through memory instead of twenty, and nothing kept but the
input. What a part of the graph computes is not read from its form, which has many: it is tried on a few numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import is_pointwise
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import find_matches
from openipu.run.rewrites.fusion.written_gelu import WRITTEN_GELU, use_gelu
from openipu.run.rewrites.simplify import remove_dead_code

aten = torch.ops.aten

_POINTS = torch.linspace(-6, 6, 97, dtype=torch.float64)
_GRADIENTS = torch.cos(7 * _POINTS)


def use_gelu_in_training(draft: Draft) -> None:
    """Put the operators in the place of what is written out, where nobody reads anything between."""
    use_gelu(draft)  # those without a gradient
    for match in find_matches(WRITTEN_GELU, draft.graph):
        source, last = match["x"], match.root
        between = [node for node in match.operators if node is not last]
        found = _find_gradient(_list_following(draft.graph, source), source, last, between)
        if found is None:
            continue
        gradient, end = found
        with draft.graph.inserting_before(last):
            result = draft.graph.call_function(aten.gelu.default, (source,), {"approximate": "tanh"})
        with draft.graph.inserting_before(end):
            backward = draft.graph.call_function(
                aten.gelu_backward.default, (gradient, source), {"approximate": "tanh"}
            )
        for old, new in ((last, result), (end, backward)):
            new.meta = dict(old.meta)
            old.replace_all_uses_with(new)
        remove_dead_code(draft)  # at once: what is read of the next GELU must not be dead code of this one


def _list_following(graph: fx.Graph, source: fx.Node) -> list[fx.Node]:
    """The nodes behind one, as the graph is now."""
    nodes = iter(graph.nodes)
    for node in nodes:
        if node is source:
            break
    return list(nodes)


def _find_gradient(
    following: Sequence[fx.Node], source: fx.Node, last: fx.Node, between: Sequence[fx.Node]
) -> tuple[fx.Node, fx.Node] | None:
    """The gradient of the result, and that of the source, if all that is kept of forward is kept for the latter."""
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
            inside = {*behind[node], *between, last}
            alone = all(inside.issuperset(value.users) for value in behind[node] - {node})
            return (gradient, node) if alone else None
    return None


def _find_incoming(kept: set[fx.Node], between: Sequence[fx.Node]) -> fx.Node | None:
    """The one value that is multiplied with values of forward."""
    products = [node for node in kept if node.target is aten.mul.Tensor]
    factors = {value for node in products for value in node.all_input_nodes}.difference(between)
    return factors.pop() if len(factors) == 1 else None


def _is_alike(node: fx.Node, source: fx.Node) -> bool:
    value, expected = node.meta.get("val"), source.meta["val"]
    return isinstance(value, torch.Tensor) and value.shape == expected.shape and value.dtype is expected.dtype
