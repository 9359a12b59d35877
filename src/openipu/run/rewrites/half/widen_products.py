"""Half precision at the speed of single precision.

In: a draft. Out: the same draft, in which the operators of `half_operators` that have half-precision operands are
computed in float32 and their results rounded to half. A rounding is never left out, so that each operator sees what it
would see on an IPU. A weight is converted once, an activation once in forward and once in backward: a float32 copy of
it would take twice the memory of the half-precision one in between.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import torch
from torch import fx

from openipu.graph import NOTE, InputKind, note_of
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, apply_rules, matched
from openipu.run.rewrites.half.conversions import (
    compute_in_float32,
    convert,
    converts_to,
    holds_half,
    is_half,
    list_parts,
    set_format,
)
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
    apply_rules(draft.graph, EXACT_CONVERSIONS)


def widen_operators(draft: Draft, targets: Collection[Any]) -> None:
    """Compute these operators in float32 where they have half-precision operands, and round what they return."""
    copies = _Copies(draft)

    def widen(match: Match, writer: Writer) -> fx.Node:
        sources = match.root.all_input_nodes
        wide = {source: copies.widen(source, match.root, writer) for source in sources if is_half(source)}
        return compute_in_float32(match, writer, wide, _widen_value(match.root.meta.get("val")))

    rule = Rule("float32 operands", Search(tuple(targets), _find), widen, shared=frozenset({"parts"}))
    apply_rules(draft.graph, (rule,))


def _find(node: fx.Node) -> Match | None:
    parts = list_parts(node)
    return matched(node, *parts, parts=parts) if any(map(is_half, node.all_input_nodes)) else None


def _widen_value(value: Any) -> Any:
    """Results in float32 instead of half."""
    if isinstance(value, list | tuple):
        return [_widen_value(item) for item in value]
    return value.to(torch.float32) if holds_half(value) else value


def _find_exact(node: fx.Node) -> Match | None:
    base, views = find_base(node.args[0])
    source = base.args[0] if converts_to(base, torch.float32) else None
    is_exact = converts_to(node, torch.float16) and is_half(source)
    return matched(node, source=source, views=views) if is_exact else None


# Conversions of a half-precision value to float32 and back, which give the value itself.
EXACT_CONVERSIONS = (
    Rule(
        "half to float32 and back",
        Search((aten._to_copy.default,), _find_exact),
        lambda match, writer: _repeat_views(writer, match["views"], match["source"]),
    ),
)


class _Copies:
    """Float32 copies of half-precision values, by value and phase."""

    def __init__(self, draft: Draft) -> None:
        self._kept = {entry.node for entry in draft.inputs if entry.kind in _KEPT} | set(draft.bound)
        self._copies: dict[Hashable, fx.Node] = {}

    def widen(self, source: fx.Node, reader: fx.Node, writer: Writer) -> fx.Node:
        """The value in float32. Readers come in the order of the graph, so the first copy precedes all of them."""
        base, views = find_base(source)
        if base.op == "placeholder" and base.name not in self._kept:
            base, views = source, []  # a user's tensor may lie in memory as no copy of it does
        key = base if self._lasts(base) else (base, note_of(reader).phase)
        if key not in self._copies:
            copy = convert(writer, base, torch.float32, like=base)
            copy.meta[NOTE] = note_of(reader)
            self._copies[key] = copy
        return _repeat_views(writer, views, self._copies[key])

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


def _repeat_views(writer: Writer, views: list[fx.Node], base: fx.Node) -> fx.Node:
    """The same views of another value."""
    for view in reversed(views):
        copy = writer.call(view.target, base, *view.args[1:], like=view, **view.kwargs)
        base = set_format(copy, base.meta["val"].dtype)
    return base
