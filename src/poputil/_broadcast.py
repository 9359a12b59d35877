"""Shapes that fit each other, as views.

In: tensors. Out: views in a common shape, by numpy's rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poplar import Graph, Tensor, Type, poplar_error
from poplar._linear import mapTensorLinearly
from poplar.program import Copy
from poplar.program import Sequence as ProgramSequence


def broadcastToMatch(first: Tensor, second: Tensor | Sequence[int]) -> Any:
    """`broadcastToMatch(t, shape)` returns a view; of two tensors, both views."""
    if not isinstance(second, Tensor):
        return _stretch(first, list(second))
    shape = _find_shape(first.shape(), second.shape())
    return _stretch(first, shape), _stretch(second, shape)


def canBroadcastToMatch(first: Tensor, second: Tensor) -> bool:
    """Do the shapes fit each other?"""
    try:
        _find_shape(first.shape(), second.shape())
    except poplar_error:
        return False
    return True


def expandToMatchRanks(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Views with as many dimensions, those that were added in front, of size 1."""
    rank = max(first.rank(), second.rank())
    return first.expand([0] * (rank - first.rank())), second.expand([0] * (rank - second.rank()))


def _find_shape(left: list[int], right: list[int]) -> list[int]:
    rank = max(len(left), len(right))
    padded = [[1] * (rank - len(shape)) + shape for shape in (left, right)]
    found = []
    for a, b in zip(*padded, strict=True):
        if a != b and 1 not in (a, b):
            raise poplar_error(f"Shapes {left} and {right} cannot be broadcast to each other.")
        found.append(max(a, b) if 0 not in (a, b) else 0)
    return found


def _stretch(tensor: Tensor, shape: list[int]) -> Tensor:
    view = tensor.expand([0] * (len(shape) - tensor.rank()))
    for dimension, size in enumerate(shape):
        if view.dim(dimension) != size:
            if view.dim(dimension) != 1:
                raise poplar_error(f"Shape {tensor.shape()} cannot be broadcast to {shape}.")
            view = view.broadcast(size, dimension)
    return view


def createBroadcastOperand(
    graph: Graph, full: Tensor, element: Type, dim: int, ditherMapping: bool = False, name: str = ""
) -> Tensor:
    """A vector as long as one dimension of a tensor."""
    made = graph.addVariable(element, [full.dim(dim)], name or "broadcast operand")
    mapTensorLinearly(graph, made)
    return made


def duplicate(graph: Graph, tensor: Tensor, prog: ProgramSequence, name: str = "", *rest: Any) -> Tensor:
    """A copy in a new variable."""
    made = graph.clone(tensor, name or "duplicate")
    prog.add(Copy(tensor, made))
    return made


def detectInnermostGrouping(graph: Graph, tensor: Tensor) -> int:
    """How many neighbours of the last dimension lie together."""
    if not tensor.rank() or not tensor.numElements():
        return 1
    row = tensor.reshape([-(-tensor.numElements() // tensor.dim(tensor.rank() - 1)), tensor.dim(tensor.rank() - 1)])[0]
    return row.getContiguousRegions()[0].size()
