"""Half precision at the speed of single precision.

In: a draft. Out: the same draft, in which the operators of `half_operators` that have half-precision operands are
computed in float32 and their results rounded to half. A rounding is never left out, so that each operator sees what it
would see on an IPU. A weight is converted once, an activation once in forward and once in backward: a float32 copy of
it would take twice the memory of the half-precision one in between.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Hashable
from typing import Any

import torch
from torch import fx

from openipu.graph import NOTE, InputKind, note_of
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.half.conversions import converts_to, holds_half, is_half
from openipu.run.rewrites.half.operators import WIDENED

aten = torch.ops.aten

# Views that can be taken of a converted tensor as well as of the tensor itself.
REPEATED_VIEWS = frozenset(
    {
        aten._unsafe_view.default,
        aten.expand.default,
        aten.permute.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
_KEPT = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT})


def widen_half_products(draft: Draft) -> None:
    """Compute half-precision products, and what is slow or impossible in half precision, in float32."""
    widen_operators(draft, WIDENED)
    remove_exact_conversions(draft)


def widen_operators(draft: Draft, targets: Collection[Any]) -> None:
    """Compute these operators in float32 where they have half-precision operands, and round what they return."""
    copies = _Copies(draft)
    for node in list(draft.graph.nodes):
        if node.op != "call_function" or node.target not in targets:
            continue
        if not any(is_half(source) for source in node.all_input_nodes):
            continue
        for source in node.all_input_nodes:
            if is_half(source):
                node.replace_input_with(source, copies.widen(source, node))
        node.args = _widen_formats(node.args)
        node.kwargs = {key: _widen_formats(value) for key, value in node.kwargs.items()}
        _round_results(draft.graph, node)


def remove_exact_conversions(draft: Draft) -> None:
    """Take out conversions of a half-precision value to float32 and back, which give the value itself."""
    for node in list(draft.graph.nodes):
        if not converts_to(node, torch.float16):
            continue
        base, views = find_base(node.args[0])
        source = base.args[0] if converts_to(base, torch.float32) else None
        if not isinstance(source, fx.Node) or not is_half(source):
            continue
        node.replace_all_uses_with(repeat_views(draft.graph, views, source, node))
        draft.graph.erase_node(node)


class _Copies:
    """Float32 copies of half-precision values, by value and phase."""

    def __init__(self, draft: Draft) -> None:
        self._graph = draft.graph
        self._kept = {entry.node for entry in draft.inputs if entry.kind in _KEPT} | set(draft.bound)
        self._copies: dict[Hashable, fx.Node] = {}

    def widen(self, source: fx.Node, reader: fx.Node) -> fx.Node:
        """The value in float32. Readers come in the order of the graph, so the first copy precedes all of them."""
        base, views = find_base(source)
        if base.op == "placeholder" and base.name not in self._kept:
            base, views = source, []  # a user's tensor may lie in memory as no copy of it does
        key = base if self._lasts(base) else (base, note_of(reader).phase)
        if key not in self._copies:
            with self._graph.inserting_before(reader):
                copy = self._graph.call_function(aten._to_copy.default, (base,), {"dtype": torch.float32})
            copy.meta = {**base.meta, NOTE: note_of(reader), "val": base.meta["val"].to(torch.float32)}
            self._copies[key] = copy
        return repeat_views(self._graph, views, self._copies[key], reader)

    def _lasts(self, base: fx.Node) -> bool:
        """Whether this is a weight, as it is held or rounded: it costs as much to convert as a small batch to use."""
        if base.target is aten._to_copy.default and isinstance(base.args[0], fx.Node):
            base = base.args[0]
        return base.op == "placeholder" and base.name in self._kept


def find_base(node: Any) -> tuple[fx.Node, list[fx.Node]]:
    """The value that this one is a view of, element for element, and the views in between, outermost first."""
    views: list[fx.Node] = []
    while isinstance(node, fx.Node) and node.target in REPEATED_VIEWS:
        source = find_viewed(node)
        if source is None or not isinstance(source.meta.get("val"), torch.Tensor):
            break
        views.append(node)
        node = source
    return node, views


def repeat_views(graph: fx.Graph, views: list[fx.Node], base: fx.Node, before: fx.Node) -> fx.Node:
    """The same views of another value."""
    for view in reversed(views):
        with graph.inserting_before(before):
            copy = graph.create_node("call_function", view.target, (base, *view.args[1:]), view.kwargs)
        copy.meta = {**view.meta, "val": view.meta["val"].to(base.meta["val"].dtype)}
        base = copy
    return base


def _round_results(graph: fx.Graph, node: fx.Node) -> None:
    """Let all readers see half-precision results rounded to half."""
    values = node.meta.get("val")
    if isinstance(values, torch.Tensor):
        if values.dtype is torch.float16:
            _round_result(graph, node)
        return
    for user in list(node.users):
        if user.target is operator.getitem and is_half(user):
            _round_result(graph, user)
    if isinstance(values, list | tuple):
        wide = [value.to(torch.float32) if holds_half(value) else value for value in values]
        node.meta = {**node.meta, "val": wide}


def _round_result(graph: fx.Graph, node: fx.Node) -> None:
    with graph.inserting_after(node):
        rounded = graph.call_function(aten._to_copy.default, (node,), {"dtype": torch.float16})
    rounded.meta = dict(node.meta)
    node.replace_all_uses_with(rounded, delete_user_cb=lambda user: user is not rounded)
    node.meta = {**node.meta, "val": node.meta["val"].to(torch.float32)}


def _widen_formats(value: Any) -> Any:
    """Arguments that ask for results in half precision ask for float32."""
    if isinstance(value, list | tuple):
        return type(value)(_widen_formats(item) for item in value)
    return torch.float32 if value is torch.float16 else value
