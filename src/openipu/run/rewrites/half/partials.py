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
from openipu.run.drafts.random_numbers import set_value
from openipu.run.drafts.rules import Match, Rule, Search, Writer, matched
from openipu.run.rewrites.half.conversions import converts_to, is_half

aten = torch.ops.aten

_Multiply = Callable[..., fx.Node]


def _find(node: fx.Node) -> Match | None:
    """A product of which all that goes in are half numbers, and all that is read is rounded to half."""
    sources = [value for value in node.args if isinstance(value, fx.Node)]
    if not node.users or not all(map(_rounds_to_half, node.users)):
        return None
    inputs = _SPLITS[node.target](node)
    if inputs is None or choose_chunk(inputs[0]) >= inputs[0]:
        return None
    return matched(node, inputs=inputs) if all(map(_holds_half_numbers, sources)) else None


def _holds_half_numbers(value: fx.Node) -> bool:
    owner = find_owner(value)
    return converts_to(owner, torch.float32) and is_half(owner.args[0])


def _rounds_to_half(node: fx.Node) -> bool:
    return node.target is aten._to_copy.default and node.meta["val"].dtype is torch.float16


def _split(match: Match, writer: Writer) -> fx.Node:
    """Write the chunks of one product."""

    def emit(target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        new = writer.call(target, *args, **kwargs)
        set_value(new, match.root.meta)
        return new

    def add(total: fx.Node, part: fx.Node) -> fx.Node:
        half = emit(aten._to_copy.default, total, dtype=torch.float16)
        return emit(aten.add.Tensor, emit(aten._to_copy.default, half, dtype=torch.float32), part)

    count, addend, multiply = match["inputs"]
    chunk = choose_chunk(count)
    total: fx.Node = multiply(emit, 0, chunk)
    for start in range(chunk, count, chunk):
        total = add(total, multiply(emit, start, min(start + chunk, count)))
    return total if addend is None else add(total, addend)


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


_SPLITS: dict[Any, Callable[[fx.Node], _Inputs | None]] = {
    aten.mm.default: _read_product,
    aten.bmm.default: _read_product,
    aten.addmm.default: _read_sum,
    aten.baddbmm.default: _read_sum,
    aten.convolution.default: _read_convolution,
}

# Round the running sums of half products to half. Gradients of convolutions keep float32 sums.
RULES = (Rule("half partials", Search(tuple(_SPLITS), _find), _split),)
