"""Where the one entry that is read, or that is not zero, lies in a tensor.

An `Axis` is a sequence of `size` entries along a dimension of which only the entry `index` matters. A view may have put
several sequences into that dimension, one after the other: then it is that entry of each. The narrow form of a tensor
has these entries alone, and its other dimensions as they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

Shape = Sequence[int]


@dataclass(frozen=True)
class Axis:
    """One entry of each of `repeats` sequences of `size` in a dimension."""

    dim: int
    repeats: int
    size: int
    index: int

    def move(self, dim: int) -> Axis:
        """The same in another dimension."""
        return replace(self, dim=dim)

    def fits(self, shape: Shape) -> bool:
        """Whether a tensor of this shape has the sequences where this says."""
        return 0 <= self.dim < len(shape) and shape[self.dim] == self.repeats * self.size

    def narrow(self, shape: Shape) -> list[int]:
        """The shape of the narrow form."""
        return [self.repeats if dim == self.dim else size for dim, size in enumerate(shape)]


def find_entry(shape: Shape, dim: int, index: int) -> Axis | None:
    """One entry of a dimension that has several."""
    dim %= len(shape)
    return Axis(dim, 1, shape[dim], index % shape[dim]) if shape[dim] > 1 else None


def find_slice(shape: Shape, dim: int, start: int | None, end: int | None, step: int) -> Axis | None:
    """The same for a slice, if it has one entry."""
    size = shape[dim % len(shape)]
    entries = range(*slice(start, end, step).indices(size))
    return find_entry(shape, dim, entries[0]) if len(entries) == 1 else None


def follow_view(axis: Axis, shape: Shape, other: Shape) -> Axis | None:
    """Where sequences lie once a tensor of a shape is read as one of another, if that is in one dimension."""
    behind = math.prod(shape[axis.dim + 1 :])
    for dim, size in enumerate(other):
        if math.prod(other[dim + 1 :]) == behind and size >= axis.size and size % axis.size == 0:
            return replace(axis, dim=dim, repeats=size // axis.size)
    return None


def follow_order(axis: Axis, order: Sequence[int]) -> Axis:
    """Where it lies after dimensions are put into another order: `order` says which old one each is."""
    return axis.move(list(order).index(axis.dim))
