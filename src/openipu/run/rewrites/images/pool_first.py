"""Rectification after max-pooling instead of before it.

In: a draft in which a maximum is taken over windows of rectified values, and nothing else reads these but the gradient.
Out: the same draft, which pools first: the largest of the rectified values is the largest value, rectified, and its
gradient goes to the same place or nowhere. Both rectify a fraction of the numbers then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft

aten = torch.ops.aten

_RECTIFY, _BLOCK = aten.relu.default, aten.threshold_backward.default
_POOL, _POOL_BACKWARD = aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default
_PLACED = 7  # the argument of the gradient that says where each maximum was


@dataclass(frozen=True, eq=False)
class _Match:
    pool: fx.Node
    values: fx.Node  # what pooling returns
    gradient: fx.Node  # of pooling
    block: fx.Node  # the gradient of rectifying


def pool_first(draft: Draft) -> None:
    """Rectify what was pooled, wherever what was rectified is only pooled."""
    for node in draft.graph.find_nodes(op="call_function", target=_RECTIFY):
        match = _read(node)
        if match is not None:
            _exchange(draft.graph, node, match)


def _read(rectified: fx.Node) -> _Match | None:
    source = rectified.args[0]
    if not isinstance(source, fx.Node):
        return None
    readers = _list_readers(rectified)
    if sorted(str(reader.target) for reader in readers) != sorted(map(str, (_POOL, _POOL_BACKWARD, _BLOCK))):
        return None
    pool, gradient, block = (
        next(reader for reader in readers if reader.target is target) for target in (_POOL, _POOL_BACKWARD, _BLOCK)
    )
    parts = {user.args[1]: user for user in pool.users}
    if set(parts) != {0, 1} or len(pool.users) != 2 or set(parts[1].users) != {gradient}:
        return None
    if gradient.args[_PLACED] is not parts[1] or _leads_to(rectified, gradient.args[0]):
        return None
    if block.args[1] is not rectified or block.args[2] != 0 or _list_readers(gradient) != {block}:
        return None
    turned = _list_views(block.args[0], gradient)
    if turned is None or turned != _list_views_back(gradient.args[1], rectified):
        return None
    return _Match(pool, parts[0], gradient, block)


def _leads_to(rectified: fx.Node, value: Any) -> bool:
    current: fx.Node | None = value
    while current is not None:
        if current is rectified:
            return True
        current = find_viewed(current)
    return False


def _list_readers(node: fx.Node) -> set[fx.Node]:
    """Who reads a value, also by way of permutations."""
    found: set[fx.Node] = set()
    for user in node.users:
        found |= _list_readers(user) if user.target is aten.permute.default else {user}
    return found


def _list_views(value: Any, source: fx.Node) -> list[list[int]] | None:
    """The permutations that lead from a source to a value, the last one first."""
    found: list[list[int]] = []
    while value is not source:
        if not isinstance(value, fx.Node) or value.target is not aten.permute.default:
            return None
        found.append(list(value.args[1]))  # type: ignore[arg-type]
        value = value.args[0]
    return found


def _list_views_back(value: Any, source: fx.Node) -> list[list[int]] | None:
    """The permutations that undo those which lead from a source to a value."""
    found = _list_views(value, source)
    if found is None:
        return None
    return [[dims.index(place) for place in range(len(dims))] for dims in reversed(found)]


def _exchange(graph: fx.Graph, rectified: fx.Node, match: _Match) -> None:
    source: Any = rectified.args[0]
    with graph.inserting_after(match.values):
        after = graph.call_function(_RECTIFY, (match.values,))
    after.meta = dict(match.values.meta)
    match.values.replace_all_uses_with(after, delete_user_cb=lambda user: user is not after)
    incoming: Any = match.gradient.args[0]
    with graph.inserting_before(match.gradient):
        blocked = graph.call_function(_BLOCK, (incoming, after, 0))
    blocked.meta = {**match.block.meta, "val": incoming.meta["val"]}
    match.gradient.replace_input_with(incoming, blocked)
    outgoing: Any = match.block.args[0]
    match.block.replace_all_uses_with(outgoing)
    graph.erase_node(match.block)
    rectified.replace_all_uses_with(source)
    graph.erase_node(rectified)
