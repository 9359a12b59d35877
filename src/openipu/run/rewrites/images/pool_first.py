"""Rectification after max-pooling instead of before it.

In: a draft in which a maximum is taken over windows of rectified values, and nothing else reads these but the gradient.
Out: the same draft, which pools first: the largest of the rectified values is the largest value, rectified, and its
gradient goes to the same place or nowhere. Both rectify a fraction of the numbers then.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched

aten = torch.ops.aten

_RECTIFY, _BLOCK = aten.relu.default, aten.threshold_backward.default
_POOL, _POOL_BACKWARD = aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default
_PLACED = 7  # the argument of the gradient that says where each maximum was


def _find(rectified: fx.Node) -> Match | None:
    """A rectifier whose result is pooled, and read again for both gradients, but by nobody else."""
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
    order = _list_views(block.args[0], gradient)
    if order is None or order != _list_views_back(gradient.args[1], rectified):
        return None
    return matched(rectified, block, parts[0], x=source, pooled=parts[0], gradient=gradient, block=block)


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


def _exchange(match: Match, writer: Writer) -> fx.Node:
    pooled, gradient, block = match["pooled"], match["gradient"], match["block"]
    with writer.before(pooled):
        largest = writer.call(operator.getitem, *pooled.args, like=pooled)
        rectified = writer.call(_RECTIFY, largest, like=pooled)
    writer.replace(pooled, rectified)
    incoming = gradient.args[0]
    with writer.before(gradient):
        blocked = writer.call(_BLOCK, incoming, rectified, 0, like=incoming)
    gradient.replace_input_with(incoming, blocked)
    writer.replace(block, block.args[0])
    found: fx.Node = match["x"]
    return found


RULES = (
    Rule(
        "max-pooling of rectified images", Search((_RECTIFY,), _find), _exchange, shared=frozenset({"block", "pooled"})
    ),
)
