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

aten = torch.ops.aten


def separate_scalars(draft: Draft) -> None:
    """Replace each element of a vector of scalars by a computation of that element alone."""
    vectors = ScalarVectors()
    lanes = _Lanes(draft.graph)
    for node in draft.graph.find_nodes(op="call_function", target=operator.getitem):
        vector = vectors.find_vector(node)
        if vector is not None:
            with draft.graph.inserting_before(node):
                element = lanes.compute(vector, int(node.args[1]), node)
            node.replace_all_uses_with(element)


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


class _Lanes:
    """Elements of vectors, each computed once."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._elements: dict[tuple[fx.Node, int], fx.Node] = {}

    def compute(self, vector: fx.Node, index: int, model: fx.Node) -> fx.Node:
        """The node of one element; `model` lends its note."""
        key = (vector, index)
        if key not in self._elements:
            if vector.target is aten.stack.default:
                stacked: Any = vector.args[0]
                self._elements[key] = stacked[index]
            else:
                element = self._graph.node_copy(vector, lambda source: self._pick(source, index, model))
                element.meta = {**model.meta, "val": vector.meta["val"].new_empty(())}
                self._elements[key] = element
        return self._elements[key]

    def _pick(self, source: fx.Node, index: int, model: fx.Node) -> fx.Node:
        return source if _rank(source) == 0 else self.compute(source, index, model)


def _rank(node: Any) -> int:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    return value.dim() if isinstance(value, torch.Tensor) else -1
