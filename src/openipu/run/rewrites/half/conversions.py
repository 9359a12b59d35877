"""Conversions between half and single precision in a draft: how they are found, and how rules write them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.run.drafts.rules import Writer

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
