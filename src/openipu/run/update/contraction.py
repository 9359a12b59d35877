"""Fewer operators for the arithmetic of updates.

In: an element-wise graph on tensors and numbers. Out: the same graph, with products and quotients that are added to
something contracted into PyTorch's combined operators, the ones its own optimizers use: one pass over memory each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

_Rewrite = tuple[Any, tuple[Any, ...], dict[str, Any]]


def contract_arithmetic(graph: fx.Graph, numbers: Collection[fx.Node]) -> None:
    """Contract sums with products. `numbers` are placeholders that hold Python numbers when the graph runs."""
    for node in list(graph.nodes):
        for rule in (_contract_lerp, _contract_sum, _contract_quotient):
            found = rule(node, numbers)
            if found is not None:
                _replace(graph, node, found)
                break
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)


def _contract_lerp(node: fx.Node, numbers: Collection[fx.Node]) -> _Rewrite | None:
    """start + (end - start) * weight."""
    for start, product in _split_sum(node):
        factors = _split_scaled(product, numbers)
        if factors is None:
            continue
        difference, weight = factors
        if (
            _is_inner(difference, aten.sub.Tensor)
            and difference.args[1] is start
            and _is_tensor(difference.args[0], numbers)
        ):
            return aten.lerp.Scalar, (start, difference.args[0], weight), {}
    return None


def _contract_sum(node: fx.Node, numbers: Collection[fx.Node]) -> _Rewrite | None:
    """a ± b * number, where b may itself be a product or a quotient of tensors."""
    negative = node.target is aten.sub.Tensor
    for left, product in _split_sum(node) + _split_difference(node):
        factors = _split_scaled(product, numbers)
        if factors is None or not _is_tensor(left, numbers):
            continue
        inner, number = factors
        for target, combined in ((aten.mul.Tensor, aten.addcmul.default), (aten.div.Tensor, aten.addcdiv.default)):
            if _is_inner(inner, target) and all(_is_tensor(value, numbers) for value in inner.args):
                return combined, (left, *inner.args), {"value": _Negated(number) if negative else number}
        return node.target, (left, inner), {"alpha": number}
    return None


def _contract_quotient(node: fx.Node, numbers: Collection[fx.Node]) -> _Rewrite | None:
    """a ± b * number / c."""
    for left, quotient in _split_sum(node) + _split_difference(node):
        factors = _split_scaled(quotient.args[0], numbers) if _is_inner(quotient, aten.div.Tensor) else None
        if factors is None or not all(_is_tensor(value, numbers) for value in (left, quotient.args[1])):
            continue
        inner, number = factors
        value = _Negated(number) if node.target is aten.sub.Tensor else number
        return aten.addcdiv.default, (left, inner, quotient.args[1]), {"value": value}
    return None


class _Negated:
    """A number whose negative is wanted."""

    def __init__(self, number: Any) -> None:
        self.number = number


def _replace(graph: fx.Graph, node: fx.Node, found: _Rewrite) -> None:
    target, args, kwargs = found
    with graph.inserting_before(node):
        value = kwargs.get("value")
        if isinstance(value, _Negated):
            kwargs["value"] = graph.call_function(operator.neg, (value.number,))
        new = graph.call_function(target, args, kwargs)
    new.meta = dict(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _split_sum(node: fx.Node) -> list[tuple[Any, Any]]:
    if node.target is not aten.add.Tensor or node.kwargs:
        return []
    return [(node.args[0], node.args[1]), (node.args[1], node.args[0])]


def _split_difference(node: fx.Node) -> list[tuple[Any, Any]]:
    if node.target is not aten.sub.Tensor or node.kwargs:
        return []
    return [(node.args[0], node.args[1])]


def _split_scaled(node: Any, numbers: Collection[fx.Node]) -> tuple[fx.Node, Any] | None:
    """A product of a tensor and a number that nothing else reads."""
    if not _is_inner(node, aten.mul.Tensor):
        return None
    for tensor, number in (node.args, node.args[::-1]):
        if _is_tensor(tensor, numbers) and (number in numbers or isinstance(number, int | float)):
            return tensor, number
    return None


def _is_inner(node: Any, target: Callable[..., Any]) -> bool:
    return isinstance(node, fx.Node) and node.target is target and len(node.users) == 1 and not node.kwargs


def _is_tensor(value: Any, numbers: Collection[fx.Node]) -> bool:
    return isinstance(value, fx.Node) and value not in numbers
