"""Half products with half partials.

In: a draft whose half products are computed in float32 and rounded to half once. Out: the same draft, in which a
product over many inputs is cut into a few chunks of them, and the running sum is rounded to half after each. An IPU
rounds after every 16 inputs of one tile, and adds up what several tiles made; so many small products would be slow
here. The errors are of the right kind, and smaller than an IPU's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from openipu.numerics import choose_chunk
from openipu.run.drafts.aliasing import find_owner
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.random_numbers import set_value
from openipu.run.rewrites.half.redundant_roundings import find_half_numbers

aten = torch.ops.aten

_Multiply = Callable[..., fx.Node]


def split_half_products(draft: Draft) -> None:
    """Round the running sums of half products to half. Gradients of convolutions keep float32 sums."""
    halves = find_half_numbers(draft.graph)
    for node in list(draft.graph.nodes):
        if node.target in _RULES and _is_half_product(node, halves):
            _Splitter(draft.graph, node).split()


def _is_half_product(node: fx.Node, halves: set[fx.Node]) -> bool:
    """Whether all that goes in are half numbers, and all that is read is rounded to half."""
    sources = [value for value in node.args if isinstance(value, fx.Node)]
    return (
        all(find_owner(value) in halves for value in sources)
        and bool(node.users)
        and all(_rounds_to_half(user) for user in node.users)
    )


def _rounds_to_half(node: fx.Node) -> bool:
    return node.target is aten._to_copy.default and node.meta["val"].dtype is torch.float16


class _Splitter:
    """Writes the chunks of one product in front of it."""

    def __init__(self, graph: fx.Graph, node: fx.Node) -> None:
        self._graph, self._node = graph, node

    def split(self) -> None:
        node = self._node
        inputs = _RULES[node.target](node)
        if inputs is None:
            return
        count, addend, multiply = inputs
        chunk = choose_chunk(count)
        if chunk >= count:
            return
        with self._graph.inserting_before(node):
            total: fx.Node | None = None
            for start in range(0, count, chunk):
                part = multiply(self._emit, start, min(start + chunk, count))
                total = part if total is None else self._emit(aten.add.Tensor, self._round(total), part)
            assert total is not None
            if addend is not None:
                total = self._emit(aten.add.Tensor, self._round(total), addend)
        node.replace_all_uses_with(total)
        self._graph.erase_node(node)

    def _round(self, value: fx.Node) -> fx.Node:
        half = self._emit(aten._to_copy.default, value, dtype=torch.float16)
        return self._emit(aten._to_copy.default, half, dtype=torch.float32)

    def _emit(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        new = self._graph.call_function(target, args, kwargs)
        set_value(new, self._node.meta)
        return new


_Inputs = tuple[int, Any, _Multiply]  # how many inputs are added up, what is added at the end, the product of some


def _read_product(node: fx.Node) -> _Inputs | None:
    left, right = node.args
    return _split_matrices(node.target, left, right, None)


def _read_sum(node: fx.Node) -> _Inputs | None:
    if node.kwargs:  # a scaled product
        return None
    addend, left, right = node.args
    return _split_matrices(
        aten.mm.default if node.target is aten.addmm.default else aten.bmm.default, left, right, addend
    )


def _split_matrices(target: Any, left: Any, right: Any, addend: Any) -> _Inputs:
    count = left.meta["val"].shape[-1]
    chunk = choose_chunk(count)
    parts: list[fx.Node] = []  # both operands, cut: one call each, where a slice would be one for each chunk

    def multiply(emit: _Multiply, start: int, end: int) -> fx.Node:
        if not parts:
            parts.extend((emit(aten.split.Tensor, left, chunk, -1), emit(aten.split.Tensor, right, chunk, -2)))
        return emit(target, *(emit(operator.getitem, part, start // chunk) for part in parts))

    return count, addend, multiply


def _read_convolution(node: fx.Node) -> _Inputs | None:
    images, weights, bias, *rest = node.args
    transposed, groups = rest[3], rest[5]
    if transposed or groups != 1 or node.kwargs:
        return None
    assert isinstance(images, fx.Node)

    def multiply(emit: _Multiply, start: int, end: int) -> fx.Node:
        channels = emit(aten.slice.Tensor, images, 1, start, end)
        # The bias starts the first sum.
        own_bias = bias if start == 0 else None
        return emit(
            aten.convolution.default, channels, emit(aten.slice.Tensor, weights, 1, start, end), own_bias, *rest
        )

    return images.meta["val"].shape[1], None, multiply


_RULES: dict[Any, Callable[[fx.Node], _Inputs | None]] = {
    aten.mm.default: _read_product,
    aten.bmm.default: _read_product,
    aten.addmm.default: _read_sum,
    aten.baddbmm.default: _read_sum,
    aten.convolution.default: _read_convolution,
}
