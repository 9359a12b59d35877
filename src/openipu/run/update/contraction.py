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

from openipu.run.drafts.rules import Match, Number, Op, Rule, Value, Writer, apply_rules, op

aten = torch.ops.aten

_SUM, _PRODUCT, _QUOTIENT = (aten.add.Tensor, aten.sub.Tensor), aten.mul.Tensor, aten.div.Tensor
_X, _A, _B = Value("x"), Value("a"), Value("b")


def contract_arithmetic(graph: fx.Graph, numbers: Collection[fx.Node]) -> None:
    """Contract sums with products. `numbers` are placeholders that hold Python numbers when the graph runs."""
    number = Number(name="number", nodes=numbers)

    def has_tensors(match: Match) -> bool:
        return not any(match.values.get(name) in numbers for name in ("x", "a", "b"))

    def make_rule(name: str, pattern: Op, write: Callable[[Match, Writer], fx.Node]) -> Rule:
        return Rule(name, pattern, write, has_tensors)

    product, quotient = op(_PRODUCT, _A, _B), op(_QUOTIENT, _A, _B)
    rules = (
        make_rule("x + (a - x) * number", op(_SUM[0], _X, op(_PRODUCT, op(_SUM[1], _A, _X), number)), _interpolate),
        make_rule("x ± a * b * number", op(_SUM, _X, op(_PRODUCT, product, number)), _add_with(aten.addcmul.default)),
        make_rule("x ± a / b * number", op(_SUM, _X, op(_PRODUCT, quotient, number)), _add_with(aten.addcdiv.default)),
        make_rule("x ± a * number", op(_SUM, _X, op(_PRODUCT, _A, number)), _add_scaled),
        make_rule(
            "x ± a * number / b",
            op(_SUM, _X, op(_QUOTIENT, op(_PRODUCT, _A, number), _B)),
            _add_with(aten.addcdiv.default),
        ),
    )
    apply_rules(graph, rules)


def _interpolate(match: Match, writer: Writer) -> fx.Node:
    return writer.call(aten.lerp.Scalar, match["x"], match["a"], match["number"])


def _add_scaled(match: Match, writer: Writer) -> fx.Node:
    return writer.call(match.root.target, match["x"], match["a"], alpha=match["number"])


def _add_with(target: Any) -> Callable[[Match, Writer], fx.Node]:
    """An operator that adds a scaled product or quotient of tensors."""

    def write(match: Match, writer: Writer) -> fx.Node:
        number = match["number"]
        if match.root.target is aten.sub.Tensor:
            negative = writer.call(operator.neg, number, like=number) if isinstance(number, fx.Node) else -number
            return writer.call(target, match["x"], match["a"], match["b"], value=negative)
        return writer.call(target, match["x"], match["a"], match["b"], value=number)

    return write
