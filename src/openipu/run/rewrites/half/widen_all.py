"""Half arithmetic in float32.

In: a draft. Out: the same draft, in which every operator that may have to round a half result takes float32 operands,
and a conversion to half follows it. PyTorch does the same inside each operator, so results stay; but now the conversion
is there to be changed.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.ops import Trait, has_trait
from openipu.run.drafts.aliasing import find_viewed, is_pure
from openipu.run.drafts.draft import Draft

aten = torch.ops.aten


def widen_half_arithmetic(draft: Draft) -> None:
    """Compute in float32 what makes half results of half operands, and round afterwards."""
    widened: dict[fx.Node, fx.Node] = {}
    for node in list(draft.graph.nodes):
        if _rounds(node):
            _widen_node(draft.graph, node, widened)


def _rounds(node: fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
        return False
    if has_trait(str(node.target), Trait.EXACT) or not is_pure(node) or find_viewed(node) is not None:
        return False
    return any(_is_half(value) for value in _list_values(node.meta.get("val")))


def _widen_node(graph: fx.Graph, node: fx.Node, widened: dict[fx.Node, fx.Node]) -> None:
    halves = [source for source in node.all_input_nodes if _is_half(source.meta.get("val"))]
    values = _evaluate(node)
    if values is None:
        return
    for source in halves:
        if source not in widened:
            with graph.inserting_before(node):
                widened[source] = graph.call_function(aten._to_copy.default, (source,), {"dtype": torch.float32})
            widened[source].meta = {**source.meta, "val": source.meta["val"].to(torch.float32)}
        node.replace_input_with(source, widened[source])
    node.args = _widen_formats(node.args)
    node.kwargs = _widen_formats(node.kwargs)
    before = node.meta["val"]
    node.meta = {**node.meta, "val": values}
    if isinstance(values, torch.Tensor):
        _round_after(graph, node, before)
        return
    for user in list(node.users):
        if user.target is operator.getitem and isinstance(user.args[1], int):
            old = before[user.args[1]]
            user.meta = {**user.meta, "val": values[user.args[1]]}
            if _is_half(old):
                _round_after(graph, user, old)


def _round_after(graph: fx.Graph, node: fx.Node, value: torch.Tensor) -> None:
    with graph.inserting_after(node):
        rounded = graph.call_function(aten._to_copy.default, (node,), {"dtype": torch.float16})
    rounded.meta = {**node.meta, "val": value}
    node.replace_all_uses_with(rounded, delete_user_cb=lambda user: user is not rounded)


def _evaluate(node: fx.Node) -> Any:
    """What the operator returns for float32 operands; None where its half results would not become float32."""

    def widen(source: fx.Node) -> Any:
        value = source.meta["val"]
        return value.to(torch.float32) if _is_half(value) else value

    args, kwargs = fx.map_arg((node.args, node.kwargs), widen)
    if "device" in kwargs:
        kwargs = {**kwargs, "device": "meta"}
    try:
        values = node.target(*_widen_formats(args), **_widen_formats(kwargs))  # type: ignore[operator]
    except (RuntimeError, TypeError, NotImplementedError):
        return None  # an operator for half numbers alone
    pairs = zip(_list_values(node.meta["val"]), _list_values(values), strict=True)
    if any(_is_half(old) and getattr(new, "dtype", None) is not torch.float32 for old, new in pairs):
        return None
    return values


def _widen_formats(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float32 if value is torch.float16 else value
    if isinstance(value, dict):
        return {key: _widen_formats(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_widen_formats(item) for item in value)
    return value


def _list_values(values: Any) -> list[Any]:
    return list(values) if isinstance(values, tuple | list) else [values]


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.float16
