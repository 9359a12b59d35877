"""Which values are alone in memory that was made for them, so that it may be written over.

In: nodes of a graph. Functions of ours that give such memory, and only read their operands, are marked by
`gives_fresh_memory`; ATen's own operators say it by their schemas.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import fx

from openipu.run.drafts.aliasing import find_viewed, is_pure
from openipu.run.drafts.random_numbers import random_bits

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "__openipu_gives_fresh_memory__"


def gives_fresh_memory(function: _Function) -> _Function:
    """Mark a function whose result is memory of its own, and which keeps none of its operands."""
    setattr(function, _MARK, True)
    return function


def is_marked_fresh(target: Any) -> bool:
    """Whether a node's target is such a function of ours."""
    return bool(getattr(target, _MARK, False))


def is_fresh(node: fx.Node) -> bool:
    """Whether a value is alone in memory that was made for it."""
    made = node
    if node.target is operator.getitem:
        source = node.args[0]
        if not isinstance(source, fx.Node) or [user.args[1:] for user in source.users].count(node.args[1:]) > 1:
            return False
        made = source
    if is_marked_fresh(made.target) or made.target is random_bits:
        return True
    # Operators of others may return parts of one piece of memory.
    return is_pure(made) and isinstance(made.target, torch._ops.OpOverload) and made.target.namespace == "aten"


def reads_once(reader: fx.Node, node: fx.Node) -> bool:
    """Whether a value is an operand of a reader in one place alone, also among lists of operands."""
    places: list[fx.Node] = []
    fx.map_arg((reader.args, reader.kwargs), places.append)
    return places.count(node) == 1


def is_last_use(node: fx.Node) -> bool:
    """Whether nobody else can see what is written to this value: an operator has just made it, for this one reader."""
    while len(node.users) == 1:
        source = find_viewed(node)
        if source is None:
            return is_fresh(node)
        node = source
    return False
