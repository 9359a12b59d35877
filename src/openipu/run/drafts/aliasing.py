"""Which values of a graph share memory.

In: nodes of a functional ATen graph. Out: for each node, the node that owns its memory, read from the operators' own
schemas.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.graph import GraphCall

# These return their argument, or a view of it, which their schemas do not all say.
_MAY_RETURN_ARGUMENT = frozenset(
    {
        "aten::_unsafe_view",
        "aten::reshape",
        "aten::contiguous",
        "aten::to",
        "aten::type_as",
        "aten::flatten",
        "aten::expand_as",
    }
)


def find_owner(node: fx.Node) -> fx.Node:
    """The node that owns the memory behind this value: itself, unless it is a view."""
    while True:
        source = find_viewed(node)
        if source is None:
            return node
        node = source


def find_viewed(node: fx.Node) -> fx.Node | None:
    """The argument that this node is a view of, if it is one."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        source = node.args[0]
        # An element of a list of views (split, unbind) lies in the viewed tensor; one of a tuple of results does not.
        return source if isinstance(source, fx.Node) and find_viewed(source) is not None else None
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    schema: Any = node.target._schema
    if schema.name in _MAY_RETURN_ARGUMENT or any(returned.alias_info is not None for returned in schema.returns):
        first = node.args[0] if node.args else None
        return first if isinstance(first, fx.Node) else None
    return None


def is_pure(node: fx.Node) -> bool:
    """Whether the value depends on the arguments alone: no random numbers, no writing."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.nondeterministic_seeded not in node.target.tags and not node.target._schema.is_mutable


def is_pointwise(node: fx.Node) -> bool:
    """Whether each element of the result depends on the same element of the arguments alone."""
    if node.target is torch.ops.aten._to_copy.default:
        return set(node.kwargs) <= {"dtype"}
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.pointwise in node.target.tags
        and is_pure(node)
    )


def draws_random_numbers(node: fx.Node) -> bool:
    """Whether the node reads the random stream."""
    if isinstance(node.target, GraphCall):
        return node.target.random
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in node.target.tags
    )
