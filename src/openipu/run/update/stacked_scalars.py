"""Undo the stacking of scalars in an update graph.

In: a draft in which the 0-dim values of many parameters (step counts) are stacked into a vector, computed on together,
and taken apart again. Out: the same draft with a chain of 0-dim values for each parameter, so that parameters with the
same rule look the same. Element by element the arithmetic is unchanged.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.run.drafts.aliasing import is_pointwise
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import Match, Rule, Search, Writer, apply_rules, matched

aten = torch.ops.aten


def separate_scalars(draft: Draft) -> None:
    """Replace each element of a vector of scalars by a computation of that element alone."""
    apply_rules(draft.graph, (_make_rule(),))


def _make_rule() -> Rule:
    vectors = ScalarVectors()
    elements: dict[tuple[fx.Node, int], fx.Node] = {}  # each is computed once

    def find(node: fx.Node) -> Match | None:
        vector = vectors.find_vector(node)
        return None if vector is None else matched(node, vector=vector, index=node.args[1])

    def separate(match: Match, writer: Writer) -> fx.Node:
        return compute(match["vector"], match["index"], writer)

    def compute(vector: fx.Node, index: int, writer: Writer) -> fx.Node:
        """The node of one element."""
        key = (vector, index)
        if key not in elements:
            if vector.target is aten.stack.default:
                stacked: Any = vector.args[0]
                elements[key] = stacked[index]
                return elements[key]
            given: Any = fx.map_arg((vector.args, vector.kwargs), lambda node: pick(node, index, writer))
            elements[key] = writer.call(vector.target, *given[0], **given[1])
            elements[key].meta["val"] = vector.meta["val"].new_empty(())
        return elements[key]

    def pick(source: fx.Node, index: int, writer: Writer) -> fx.Node:
        return source if _rank(source) == 0 else compute(source, index, writer)

    return Rule("element of stacked scalars", Search((operator.getitem,), find), separate)


class ScalarVectors:
    """Which vectors are scalars that were stacked."""

    def __init__(self) -> None:
        self._followed: dict[fx.Node, bool] = {}

    def find_vector(self, node: fx.Node) -> fx.Node | None:
        """The vector of scalars that this node, an item of something, is one element of."""
        source, index = node.args
        if not isinstance(source, fx.Node) or source.target is not aten.unbind.int or _rank(source.args[0]) != 1:
            return None
        vector = source.args[0]
        followed = isinstance(vector, fx.Node) and isinstance(index, int) and self.can_follow(vector)
        return vector if followed and isinstance(vector, fx.Node) else None

    def can_follow(self, vector: fx.Node) -> bool:
        """Whether a vector comes from stacked scalars by element-wise operators alone."""
        if vector not in self._followed:
            if vector.target is aten.stack.default:
                followed = _rank(vector) == 1
            else:
                followed = is_pointwise(vector) and all(
                    _rank(source) == 0 or (_rank(source) == 1 and self.can_follow(source))
                    for source in vector.all_input_nodes
                )
            self._followed[vector] = followed
        return self._followed[vector]


def _rank(node: Any) -> int:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.dim() if isinstance(value, torch.Tensor) else -1
