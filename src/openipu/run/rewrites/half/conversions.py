"""Conversions between half and single precision in a draft: how they are found, and how rules write them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.rules import Match, Writer

aten = torch.ops.aten


def converts_to(node: Any, dtype: torch.dtype) -> bool:
    """Whether this is a conversion of a tensor to another format, and no more than that."""
    return (
        isinstance(node, fx.Node)
        and node.target is aten._to_copy.default
        and dict(node.kwargs) == {"dtype": dtype}
        and isinstance(node.args[0], fx.Node)
    )


def convert(writer: Writer, value: fx.Node, dtype: torch.dtype, like: fx.Node | None = None) -> fx.Node:
    """A conversion, noted as the root or another node is."""
    return set_format(writer.call(aten._to_copy.default, value, like=like, dtype=dtype), dtype)


def set_format(node: fx.Node, dtype: torch.dtype) -> fx.Node:
    """Say that a new node, written like another one, has this format."""
    node.meta["val"] = node.meta["val"].to(dtype)
    return node


def is_half(node: Any) -> bool:
    return isinstance(node, fx.Node) and holds_half(node.meta.get("val"))


def holds_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.float16


def list_parts(node: fx.Node) -> list[fx.Node]:
    """What reads one of several results."""
    return [user for user in node.users if user.target is operator.getitem]


def compute_in_float32(match: Match, writer: Writer, wide: Mapping[fx.Node, fx.Node], values: Any) -> fx.Node:
    """Write the operator of a match with other operands; who reads a half result, or one of its `parts`, gets the new
    one rounded. `values` are the new results."""
    root = match.root
    args, kwargs = fx.map_arg((root.args, root.kwargs), lambda source: wide.get(source, source))
    computed = writer.call(root.target, *ask_for_float32(args), **ask_for_float32(kwargs))
    computed.meta["val"] = values
    for part in match["parts"]:
        with writer.before(part):
            item = writer.call(operator.getitem, computed, part.args[1], like=part)
            item.meta["val"] = values[part.args[1]]
            writer.replace(part, _round_like(writer, item, part))
    return _round_like(writer, computed, root)


def _round_like(writer: Writer, value: fx.Node, old: fx.Node) -> fx.Node:
    return convert(writer, value, torch.float16, like=old) if is_half(old) else value


def ask_for_float32(value: Any) -> Any:
    """Arguments that ask for results in half precision ask for float32."""
    if isinstance(value, dict):
        return {key: ask_for_float32(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(ask_for_float32, value))
    return torch.float32 if value is torch.float16 else value
