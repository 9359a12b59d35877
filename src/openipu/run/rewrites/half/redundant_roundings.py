"""Roundings that change nothing.

In: a draft whose half products are computed in float32. Out: the same draft without the roundings of values that are
half-precision numbers already. What chooses among half-precision numbers, such as the largest of a window or the
positive part, gives half-precision numbers in float32 too: a product behind it reads them as they are, instead of
having them rounded to half and converted back.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.graph import note_of
from openipu.ops import Trait, has_trait
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft

aten = torch.ops.aten


def find_half_numbers(graph: fx.Graph) -> set[fx.Node]:
    """Float32 values that are half-precision numbers: converted from half, or chosen among such."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if _holds_half_numbers(node, found):
            found.add(node)
    return found


def skip_exact_roundings(draft: Draft) -> None:
    """Let readers in float32 have exact values without a way through half precision."""
    exact: set[fx.Node] = set()
    for node in list(draft.graph.nodes):
        source = node.args[0] if node.args else None
        wide = _find_unrounded(source, exact) if isinstance(source, fx.Node) else None
        # A copy that lives until the backward pass would take twice the memory.
        if wide is not None and _converts(node, torch.float16, torch.float32) and _is_same_phase(node, wide):
            node.replace_all_uses_with(wide)
            draft.graph.erase_node(node)
        elif wide is not None and _has(node, Trait.ELEMENTWISE_CHOICE) and _is_read_in_float32(node):
            exact.add(_compute_in_float32(draft.graph, node, wide))
        elif _holds_half_numbers(node, exact):
            exact.add(node)


def _holds_half_numbers(node: fx.Node, known: set[fx.Node]) -> bool:
    if _converts(node, torch.float16, torch.float32):
        return True
    source = node.args[0] if node.args else None
    return isinstance(source, fx.Node) and source in known and _chooses(node)


def _find_unrounded(node: fx.Node, exact: set[fx.Node]) -> fx.Node | None:
    """The exact float32 value that this one is rounded from, if it is."""
    source = node.args[0] if _converts(node, torch.float32, torch.float16) else None
    return source if isinstance(source, fx.Node) and source in exact else None


def _chooses(node: fx.Node) -> bool:
    """Whether each number of the result is one of the first argument's, or its negative."""
    if node.target is operator.getitem:
        return bool(node.args[1] == 0)  # the second result of a pool are places in its windows
    return _has(node, Trait.CHOOSES) or find_viewed(node) is not None


def _has(node: fx.Node, trait: Trait) -> bool:
    return node.op == "call_function" and has_trait(str(node.target), trait)


def _is_read_in_float32(node: fx.Node) -> bool:
    return any(
        _is_same_phase(user, node)
        and (
            _converts(user, torch.float16, torch.float32)
            or (_has(user, Trait.ELEMENTWISE_CHOICE) and _is_read_in_float32(user))
        )
        for user in node.users
    )


def _compute_in_float32(graph: fx.Graph, node: fx.Node, wide: fx.Node) -> fx.Node:
    """The operator on float32; who reads its half result gets that rounded."""
    with graph.inserting_before(node):
        computed = graph.create_node("call_function", node.target, (wide, *node.args[1:]), node.kwargs)
        rounded = graph.call_function(aten._to_copy.default, (computed,), {"dtype": torch.float16})
    computed.meta = {**node.meta, "val": node.meta["val"].to(torch.float32)}
    rounded.meta = dict(node.meta)
    node.replace_all_uses_with(rounded)
    graph.erase_node(node)
    return computed


def _is_same_phase(node: fx.Node, other: fx.Node) -> bool:
    return note_of(node).phase == note_of(other).phase


def _converts(node: fx.Node, before: torch.dtype, after: torch.dtype) -> bool:
    return (
        node.target is aten._to_copy.default
        and dict(node.kwargs) == {"dtype": after}
        and _read_format(node.args[0]) is before
    )


def _read_format(node: Any) -> torch.dtype | None:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None
