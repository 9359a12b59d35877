"""Elements around a tensor, as views: constants, or the tensor's own edge. Nothing is added to a program.

In: how many elements before and behind, for each dimension or for one. Out: a view. Negative numbers cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any

from poplar import Graph, Tensor, concat
from poplar._errors import poplar_error


class Type(Enum):
    """What is put around a tensor instead of a constant."""

    EDGE = "the element at the edge"
    REFLECT = "the elements beside the edge, turned around"


class MappingMethod(Enum):
    """Where the constants lie; all of them are one element on tile 0 here."""

    NONE = 0
    ZERO = 1
    EDGE = 2


padding = SimpleNamespace(Type=Type, MappingMethod=MappingMethod)


def pad(*arguments: Any) -> Tensor:
    """`(graph, t, lower, upper, value)`, `(graph, t, lower, upper, dim, value)` for one dimension; with
    `padding.Type` in place of a value, `(t, lower, upper, type)` and `(t, lower, upper, dim, type)`.
    """
    graph = arguments[0] if isinstance(arguments[0], Graph) else None
    given, lower, upper, *rest = arguments[1:] if graph is not None else arguments
    tensor: Tensor = given
    rest = [value for value in rest if not isinstance(value, (MappingMethod, str))]
    if not isinstance(lower, Sequence):
        lower, upper = (_at(tensor, int(rest[0]), int(amount)) for amount in (lower, upper))
        rest = rest[1:]
    value: Any = rest[0] if rest else 0.0
    if len(lower) != tensor.rank() or len(upper) != tensor.rank():
        raise poplar_error(
            f"pad: {list(lower)} and {list(upper)} do not fit the {tensor.rank()} dimensions of a tensor."
        )
    for dimension, (low, high) in enumerate(zip(lower, upper, strict=True)):
        tensor = _cut(tensor, low, high, dimension)
        for amount, first in ((max(0, low), True), (max(0, high), False)):
            block = _make_block(graph, tensor, dimension, amount, value, first=first)
            if block is not None:
                tensor = concat([block, tensor] if first else [tensor, block], dimension)
    return tensor


def _at(tensor: Tensor, dimension: int, amount: int) -> list[int]:
    return [amount if place == dimension else 0 for place in range(tensor.rank())]


def _cut(tensor: Tensor, low: int, high: int, dimension: int) -> Tensor:
    if low >= 0 and high >= 0:
        return tensor
    return tensor.slice(max(0, -low), tensor.dim(dimension) - max(0, -high), dimension)


def _make_block(
    graph: Graph | None, tensor: Tensor, dimension: int, amount: int, value: Any, *, first: bool
) -> Tensor | None:
    if not amount:
        return None
    size = tensor.dim(dimension)
    if value is Type.EDGE:
        edge = tensor.slice(0, 1, dimension) if first else tensor.slice(size - 1, size, dimension)
        return edge.broadcast(amount, dimension)
    if value is Type.REFLECT:
        if amount >= size:
            raise poplar_error(f"pad: {amount} elements cannot be reflected from a dimension of {size}.")
        begin = 1 if first else size - 1 - amount
        return tensor.slice(begin, begin + amount, dimension).reverse(dimension)
    block = value if isinstance(value, Tensor) else _make_constant(graph, tensor, value)
    for axis, length in enumerate(tensor.shape()):
        block = block.expand([axis]).broadcast(amount if axis == dimension else length, axis)
    return block


def _make_constant(graph: Graph | None, tensor: Tensor, value: Any) -> Tensor:
    if graph is None:
        raise poplar_error("pad: a constant needs the graph as the first argument.")
    made = graph.addConstant(tensor.elementType(), [], value, "padding")
    graph.setTileMapping(made, 0)
    return made
