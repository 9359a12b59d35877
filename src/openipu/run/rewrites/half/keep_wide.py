"""Rounded values that stay in float32.

In: a draft in which results are rounded to half by chance, and converted to float32 again by who reads them. Out: the
same draft, in which such a value is rounded in the memory that it was computed in, as a float32 that half has; a half
one is made only for who needs that. One pass over the cache instead of a narrower copy and a wide one again. A C++
kernel does it, if there is one (`bound_rounding.py`); otherwise operators do.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.drafts.draft import Draft
from openipu.run.drafts.ownership import is_last_use
from openipu.run.drafts.rules import Match, Rule, Value, Writer, op
from openipu.run.rewrites.half.rounded_draws import round_by_chance, round_in_place, round_wide
from openipu.run.rewrites.half.widen_products import REPEATED_VIEWS, converts_to

aten = torch.ops.aten

_ADDED: dict[Any, Any] = {aten.mm.default: torch.Tensor.addmm_, aten.bmm.default: torch.Tensor.baddbmm_}


def keep_rounded_wide(draft: Draft) -> None:
    """Let readers in float32 have rounded values without a way through half precision."""
    for node in list(draft.graph.nodes):
        if node.target is round_by_chance and _is_read_wide(node):
            _round_wide(draft.graph, node)
        elif converts_to(node, torch.float16) and _is_mask(node.args[0]) and _is_read_wide(node):
            _convert_wide(draft.graph, node)


def _round_wide(graph: fx.Graph, node: fx.Node) -> None:
    values = node.args[0]
    assert isinstance(values, fx.Node)
    with graph.inserting_before(node):
        wide = graph.call_function(round_in_place if is_last_use(values) else round_wide, node.args)
    wide.meta = _widen_meta(node)
    _give_wide(graph, node, wide)
    if node.users:
        with graph.inserting_before(node):
            narrow = graph.call_function(aten._to_copy.default, (wide,), {"dtype": torch.float16})
        narrow.meta = dict(node.meta)
        node.replace_all_uses_with(narrow)
    graph.erase_node(node)


def _convert_wide(graph: fx.Graph, node: fx.Node) -> None:
    """A mask of zeros and ones, which a dropout multiplies by."""
    with graph.inserting_before(node):
        wide = graph.call_function(aten._to_copy.default, node.args, {"dtype": torch.float32})
    wide.meta = _widen_meta(node)
    _give_wide(graph, node, wide)
    if not node.users:
        graph.erase_node(node)


def _is_mask(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.meta["val"].dtype is torch.bool


def _is_read_wide(node: fx.Node) -> bool:
    """Whether the value is converted to float32 somewhere, or a view or a copy of it is."""
    return any(converts_to(user, torch.float32) or (_moves(user, node) and _is_read_wide(user)) for user in node.users)


def _give_wide(graph: fx.Graph, node: fx.Node, wide: fx.Node) -> None:
    """Let all who convert a half value have the float32 one, and those behind views and copies of it the same of it."""
    for user in list(node.users):
        if converts_to(user, torch.float32):
            user.replace_all_uses_with(wide)
            graph.erase_node(user)
        elif _moves(user, node) and _is_read_wide(user):
            with graph.inserting_before(user):
                moved = graph.create_node("call_function", user.target, (wide, *user.args[1:]), user.kwargs)
            moved.meta = _widen_meta(user)
            _give_wide(graph, user, moved)
            if not user.users:
                graph.erase_node(user)


def _moves(user: fx.Node, node: fx.Node) -> bool:
    return (user.target in REPEATED_VIEWS or user.target is aten.clone.default) and user.args[0] is node


def _widen_meta(node: fx.Node) -> dict[str, Any]:
    return {**node.meta, "val": node.meta["val"].to(torch.float32)}


def _add_in_place(match: Match, writer: Writer) -> fx.Node:
    return writer.call(_ADDED[match["product"].target], match["total"], match["left"], match["right"])


def _is_rounded_for_sum(match: Match) -> bool:
    total = match["total"]
    rounded = total.target in (round_in_place, round_wide) and set(total.users) == {match.root}
    return rounded and total.meta["val"].shape == match.root.meta["val"].shape


# Let the library that computes a product add it to the rounded sum of those before it, in that sum's memory.
ADDED_PRODUCTS = (
    Rule(
        "product added to a rounded sum",
        op(aten.add.Tensor, Value("total"), op(tuple(_ADDED), Value("left"), Value("right"), name="product")),
        _add_in_place,
        _is_rounded_for_sum,
    ),
)
