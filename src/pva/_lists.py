"""Sequences whose elements are made when they are asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

Item = TypeVar("Item")

DEFAULT_PRINTED = 10


class LazyList(Sequence[Item], Generic[Item]):
    """`count` elements, each from `make(index)`."""

    printed = DEFAULT_PRINTED  # elements that a printed list shows; `Report.listPrintLength` sets it

    def __init__(self, count: int, make: Callable[[int], Item], keep: bool = True) -> None:
        self._count, self._make, self._keep = count, make, keep
        self._made: dict[int, Item] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self._count))]
        place = index + self._count if index < 0 else index
        if not 0 <= place < self._count:
            raise IndexError(f"there is no element {index}: the list has {self._count}")
        if not self._keep:
            return self._make(place)
        if place not in self._made:
            self._made[place] = self._make(place)
        return self._made[place]

    def __repr__(self) -> str:
        shown = [repr(self[index]) for index in range(min(self._count, type(self).printed))]
        return "[" + ", ".join(shown) + (", ..." if self._count > len(shown) else "") + "]"
