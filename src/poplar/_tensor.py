"""Tensors: views of variables. No method here copies data or adds anything to a program.

In: a graph and where elements lie. Out: other views. Names are the original's; `t.slice(a, b)` is also `t[a:b]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from openipu.graph.mapped import ElementType, Ints, View, count_row_major, spell_out
from poplar._errors import graph_connection_error, index_error, poplar_error, tensor_creation_error, type_error
from poplar._views import Interval, Shape, lie_apart, reshape_strides

if TYPE_CHECKING:
    from poplar._graph import Graph


class UpsampleMethod:
    """How `Tensor.upsample` fills."""

    REPEAT = "REPEAT"


class Tensor:
    """Elements of one type, in a shape."""

    __slots__ = ("_addresses", "_offset", "_shape", "_strides", "_type", "graph")

    def __init__(
        self,
        graph: Graph,
        element: ElementType,
        shape: Shape,
        offset: int,
        strides: Shape,
        addresses: Ints | None = None,
    ) -> None:
        self.graph = graph
        self._type = element
        self._shape = shape
        self._offset = offset
        self._strides = strides
        self._addresses = addresses

    # -- what it is ----------------------------------------------------------------------------------------------

    def shape(self) -> list[int]:
        return list(self._shape)

    def dim(self, index: int) -> int:
        if not 0 <= index < len(self._shape):
            raise index_error(f"dim({index}): the tensor has {len(self._shape)} dimensions.")
        return self._shape[index]

    def rank(self) -> int:
        return len(self._shape)

    def numElements(self) -> int:
        return math.prod(self._shape)

    def elementType(self) -> ElementType:
        return self._type

    def isContiguous(self) -> bool:
        """Do the elements lie one after the other?"""
        if self._addresses is not None:
            flat = self._addresses.reshape(-1)
            return bool((np.diff(flat) == 1).all())
        count = self.numElements()
        return count < 2 or reshape_strides(self._shape, self._strides, (count,)) == (1,)

    def containsAliases(self) -> bool:
        """Does an element appear more than once?"""
        if self._addresses is None and (not self.numElements() or lie_apart(self._shape, self._strides)):
            return False
        flat = self.addresses().reshape(-1)
        return len(np.unique(flat)) < len(flat)

    def containsConstant(self) -> bool:
        return self.graph._store.touches_constant(self)

    def isParallelWriteable(self) -> bool:
        return not self.containsAliases() and not self.containsConstant()

    def getContiguousRegions(self) -> list[Interval]:
        """Runs of neighbouring elements, as intervals of the flattened tensor."""
        if self._addresses is None and self.numElements() and self.isContiguous():
            return [Interval(0, self.numElements())]
        flat = self.addresses().reshape(-1)
        if not len(flat):
            return []
        cuts = [0, *(np.flatnonzero(np.diff(flat) != 1) + 1).tolist(), len(flat)]
        return [Interval(begin, end) for begin, end in pairwise(cuts)]

    def valid(self) -> bool:
        return True

    def addresses(self) -> Ints:
        """The address of each element, in the tensor's shape."""
        if self._addresses is not None:
            return self._addresses
        return spell_out(self._offset, self._shape, self._strides)

    def view(self) -> View:
        """The tensor as the engine knows it."""
        if self._addresses is not None:
            return View(self._type, self._shape, addresses=self._addresses)
        return View(self._type, self._shape, self._offset, self._strides)

    def __repr__(self) -> str:
        return f"<Tensor {self.graph._store.name_of(self)} {self._type.name} {list(self._shape)}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tensor)
            and self._type is other._type
            and self._shape == other._shape
            and bool((self.addresses() == other.addresses()).all())
        )

    __hash__ = object.__hash__

    def __len__(self) -> int:
        return self.dim(0)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterable[Tensor]:
        return (self[index] for index in range(self.dim(0)))

    # -- parts ---------------------------------------------------------------------------------------------------

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> Tensor:
        if type(index) is int:
            shape = self._shape
            if not shape or not -shape[0] <= index < shape[0]:
                raise index_error(f"Index {index} is outside of a tensor of shape {list(shape)}.")
            if index < 0:
                index += shape[0]
            if self._addresses is not None:
                return self._scattered(self._addresses[index])
            return Tensor(self.graph, self._type, shape[1:], self._offset + index * self._strides[0], self._strides[1:])
        if isinstance(index, slice):
            begin, end, step = index.indices(self.dim(0))
            found = self.slice(begin, max(begin, end))
            return found if step == 1 else found.subSample(step, 0)
        if isinstance(index, tuple):
            return self._pick(index)
        return self[int(index)]  # a numpy integer

    def _pick(self, places: tuple[int | slice, ...]) -> Tensor:
        found, dimension = self, 0
        for place in places:
            if isinstance(place, slice):
                begin, end, step = place.indices(found.dim(dimension))
                found = found.slice(begin, max(begin, end), dimension)
                found = found if step == 1 else found.subSample(step, dimension)
                dimension += 1
            else:
                if place < 0:
                    place += found.dim(dimension)
                found = found.slice(place, place + 1, dimension).squeeze([dimension])
        return found

    def slice(
        self,
        begin: int | Sequence[int] | Interval,
        end: int | Sequence[int] | None = None,
        dimension: int = 0,
    ) -> Tensor:
        """Part of one dimension, `[begin, end)`; or of all, with one begin and one end for each."""
        if type(begin) is int and type(end) is int and dimension == 0 and self._addresses is None:
            own = self._shape
            if own and 0 <= begin <= end <= own[0]:
                strides = self._strides
                return Tensor(
                    self.graph, self._type, (end - begin, *own[1:]), self._offset + begin * strides[0], strides
                )
        if isinstance(begin, Interval):
            return self.slice(begin.begin, begin.end, dimension if end is None else int(end))  # type: ignore[arg-type]
        if isinstance(begin, Sequence):
            assert isinstance(end, Sequence), "Give one end for each begin."
            found = self
            for axis, (low, high) in enumerate(zip(begin, end, strict=True)):
                found = found.slice(int(low), int(high), axis)
            return found
        shape = self._shape
        if end is None:
            end = self.dim(dimension)
        assert not isinstance(end, Sequence)
        if not 0 <= dimension < len(shape) or not 0 <= begin <= end <= shape[dimension]:
            raise index_error(
                f"slice({begin}, {end}, {dimension}) is outside of a tensor of shape {list(shape)}: begin and end must "
                "be in order, and no more than the size of the dimension."
            )
        if self._addresses is not None:
            return self._scattered(self._addresses[(slice(None),) * dimension + (slice(begin, end),)])
        if dimension == 0:
            shape = (end - begin, *shape[1:])
        else:
            shape = (*shape[:dimension], end - begin, *shape[dimension + 1 :])
        return Tensor(self.graph, self._type, shape, self._offset + begin * self._strides[dimension], self._strides)

    def slices(self, intervals: Sequence[Interval | tuple[int, int]], dimension: int = 0) -> list[Tensor]:
        return [self.slice(begin, end, dimension) for begin, end in intervals]

    def index(self, indices: Sequence[int]) -> Tensor:
        """One index for each of the first dimensions."""
        found = self
        for place in indices:
            found = found[place]
        return found

    def subSample(self, stride: int, dimension: int) -> Tensor:
        """Every `stride`-th element of a dimension."""
        self._check_dimension(dimension)
        if stride < 1:
            raise poplar_error(f"subSample: the stride is {stride}, and must be at least 1.")
        return self._restrided(dimension, -(-self._shape[dimension] // stride), 0, stride)

    def reverse(self, dimension: int) -> Tensor:
        self._check_dimension(dimension)
        size = self._shape[dimension]
        return self._restrided(dimension, size, max(0, size - 1), -1)

    def _restrided(self, dimension: int, size: int, first: int, factor: int) -> Tensor:
        if self._addresses is not None:
            pick = slice(None, None, factor)
            return self._scattered(self._addresses[(slice(None),) * dimension + (pick,)])
        strides = list(self._strides)
        offset = self._offset + first * strides[dimension]
        strides[dimension] *= factor
        shape = (*self._shape[:dimension], size, *self._shape[dimension + 1 :])
        return Tensor(self.graph, self._type, shape, offset, tuple(strides))

    # -- shapes --------------------------------------------------------------------------------------------------

    def reshape(self, shape: Sequence[int]) -> Tensor:
        wanted = tuple(int(size) for size in shape)
        if math.prod(wanted) != self.numElements() or any(size < 0 for size in wanted):
            raise poplar_error(
                f"reshape: {list(wanted)} has {math.prod(wanted)} elements, and the tensor has {self.numElements()} "
                f"(its shape is {self.shape()})."
            )
        if self._addresses is not None:
            return self._scattered(self._addresses.reshape(wanted))
        strides = reshape_strides(self._shape, self._strides, wanted) if self.numElements() else count_row_major(wanted)
        if strides is None:
            return self._scattered(self.addresses().reshape(wanted))
        return Tensor(self.graph, self._type, wanted, self._offset, strides)

    def flatten(self, begin: int | None = None, end: int | None = None) -> Tensor:
        """All dimensions as one, or those from `begin` up to `end`."""
        if len(self._shape) == 1 and begin is None:
            return self
        low, high = begin or 0, len(self._shape) if end is None else end
        merged = math.prod(self._shape[low:high])
        return self.reshape((*self._shape[:low], merged, *self._shape[high:]))

    def reshapePartial(self, begin: int, end: int, dims: Sequence[int]) -> Tensor:
        return self.reshape((*self._shape[:begin], *dims, *self._shape[end:]))

    def expand(self, indices: Sequence[int]) -> Tensor:
        """A dimension of size 1 before each of these, counted in the original shape."""
        shape = list(self._shape)
        for place in sorted((int(index) for index in indices), reverse=True):
            if not 0 <= place <= len(self._shape):
                raise index_error(f"expand: there is no dimension {place} in {self.shape()}.")
            shape.insert(place, 1)
        return self.reshape(shape)

    def squeeze(self, dims: Sequence[int]) -> Tensor:
        for place in dims:
            if self.dim(int(place)) != 1:
                raise poplar_error(f"squeeze: dimension {place} of {self.shape()} has not the size 1.")
        gone = {int(place) for place in dims}
        return self.reshape([size for place, size in enumerate(self._shape) if place not in gone])

    def dimShuffle(self, permutation: Sequence[int]) -> Tensor:
        order = tuple(int(place) for place in permutation)
        if sorted(order) != list(range(len(self._shape))):
            raise poplar_error(f"dimShuffle: {list(order)} is no order of {len(self._shape)} dimensions.")
        if self._addresses is not None:
            return self._scattered(self._addresses.transpose(order))
        shape = tuple(self._shape[place] for place in order)
        strides = tuple(self._strides[place] for place in order)
        return Tensor(self.graph, self._type, shape, self._offset, strides)

    def dimShufflePartial(self, source: Sequence[int], destination: Sequence[int]) -> Tensor:
        order: list[int | None] = [None] * len(self._shape)
        for old, new in zip(source, destination, strict=True):
            order[new] = old
        rest = iter(place for place in range(len(self._shape)) if place not in source)
        return self.dimShuffle([next(rest) if place is None else place for place in order])

    def dimRoll(self, dimension: int, new: int = 0) -> Tensor:
        """Move one dimension to another place."""
        order = [place for place in range(len(self._shape)) if place != dimension]
        order.insert(new, dimension)
        return self.dimShuffle(order)

    def transpose(self) -> Tensor:
        if len(self._shape) != 2:
            raise poplar_error(f"transpose: the tensor has {len(self._shape)} dimensions, and must have 2.")
        return self.dimShuffle([1, 0])

    def broadcast(self, count: int, dimension: int) -> Tensor:
        """The tensor `count` times along a dimension, without a copy."""
        self._check_dimension(dimension)
        if self._shape[dimension] == 1 and self._addresses is None:
            strides = (*self._strides[:dimension], 0, *self._strides[dimension + 1 :])
            shape = (*self._shape[:dimension], count, *self._shape[dimension + 1 :])
            return Tensor(self.graph, self._type, shape, self._offset, strides)
        repeats = [1] * len(self._shape)
        repeats[dimension] = count
        return self._scattered(np.tile(self.addresses(), repeats))

    def upsample(self, scale: int, dimension: int, method: str = UpsampleMethod.REPEAT) -> Tensor:
        """Each element `scale` times in a row."""
        self._check_dimension(dimension)
        return self._scattered(np.repeat(self.addresses(), scale, axis=dimension))

    def reinterpret(self, element: ElementType) -> Tensor:
        if element.bytes != self._type.bytes:
            raise type_error(f"reinterpret: {element} has {element.bytes} bytes, and {self._type} {self._type.bytes}.")
        return Tensor(self.graph, element, self._shape, self._offset, self._strides, self._addresses)

    def shapeToString(self) -> str:
        return "{" + ",".join(str(size) for size in self._shape) + "}"

    def getVarRegions(self) -> list[tuple[int, Interval]]:
        """The variables that the elements lie in, as runs: (number of the variable, interval in it)."""
        return self.graph._store.list_regions(self)

    def _scattered(self, addresses: Ints) -> Tensor:
        return Tensor(self.graph, self._type, addresses.shape, 0, (), addresses)

    def _check_dimension(self, dimension: int) -> None:
        if not 0 <= dimension < len(self._shape):
            raise index_error(f"There is no dimension {dimension} in a tensor of shape {self.shape()}.")


def concat(tensors: Tensor | Sequence[Tensor], second: Tensor | int = 0, dimension: int = 0) -> Tensor:
    """Tensors one after the other along a dimension: `concat([a, b], 1)` or `concat(a, b, 1)`."""
    if isinstance(tensors, Tensor):
        assert isinstance(second, Tensor), "Give two tensors, or a list of them."
        parts, axis = [tensors, second], dimension
    else:
        parts = list(tensors)
        axis = second if isinstance(second, int) else dimension
    if not parts:
        raise tensor_creation_error("concat: there is no tensor.")
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        if part._type is not first._type:
            raise type_error(f"concat: element types differ ({first._type} and {part._type}). Cast one of them.")
        if part.graph._store is not first.graph._store:
            raise graph_connection_error("concat: the tensors are of different graphs.")
        left, right = list(first._shape), list(part._shape)
        if (
            len(left) != len(right)
            or not 0 <= axis < len(left)
            or left[:axis] + left[axis + 1 :] != (right[:axis] + right[axis + 1 :])
        ):
            raise poplar_error(f"concat: shapes {left} and {right} differ in more than dimension {axis}.")
    return first._scattered(np.concatenate([part.addresses() for part in parts], axis=axis))


def append(first: Tensor, second: Tensor, dimension: int = 0) -> Tensor:
    """`second`, which has one dimension less, as the last entry along a dimension of `first`."""
    return concat([first, second.expand([dimension])], dimension)
