"""What the graphs of one program share: variables, their addresses, and the tile of every element.

In: sizes and mappings, in the order in which the user gives them. Out: variables as records, tile maps by address. A
mapping is only written down; it is worked out once somebody asks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from openipu.graph import SourceLine
from openipu.graph.mapped import NO_TILE, Array, ElementType, Ints, TileMap
from poplar._errors import graph_connection_error
from poplar._views import Interval, reshape_strides

if TYPE_CHECKING:
    from poplar._tensor import Tensor


@dataclass(slots=True)
class StoredVariable:
    """A variable or a constant, as the user made it."""

    number: int
    name: str
    type: ElementType
    shape: tuple[int, ...]
    start: int
    elements: int
    line: SourceLine | None
    value: Array | None
    initial: Array | None = None  # of a variable: what it holds when a program is loaded


class Store:
    """Variables of one program."""

    def __init__(self) -> None:
        self.variables: list[StoredVariable] = []
        self.spaces: dict[int, int] = {}
        self._by_size: dict[int, list[StoredVariable]] = {}
        self._starts: dict[int, list[int]] = {}
        self._log: dict[int, array[int]] = {}  # element size -> rows of (offset, length, stride, tile)
        self._others: dict[int, list[tuple[int, Ints, int]]] = {}  # (place in the log, addresses, tile)
        self._maps: dict[int, tuple[tuple[int, int, int], TileMap]] = {}

    def add(
        self,
        element: ElementType,
        shape: tuple[int, ...],
        name: str,
        line: SourceLine | None,
        value: Array | None = None,
    ) -> StoredVariable:
        elements = 1
        for size in shape:
            elements *= size
        start = self.spaces.get(element.bytes, 0)
        made = StoredVariable(len(self.variables), name, element, shape, start, elements, line, value)
        self.spaces[element.bytes] = start + elements
        self.variables.append(made)
        if elements:
            self._by_size.setdefault(element.bytes, []).append(made)
            self._starts.setdefault(element.bytes, []).append(start)
        return made

    def set_initial(self, tensor: Tensor, values: Any) -> None:
        """What a whole variable holds when a program is loaded."""
        regions = self.list_regions(tensor)
        one = self.variables[regions[0][0]] if len(regions) == 1 else None
        if one is None or one.value is not None or regions[0][1] != Interval(0, one.elements):
            raise graph_connection_error(f"setInitialValue takes one whole variable, not {tensor!r}.")
        given = np.asarray(values)
        if given.size not in (1, one.elements):
            raise graph_connection_error(f"setInitialValue: {given.size} values for a variable of {one.elements}.")
        one.initial = np.broadcast_to(given.reshape(-1), (one.elements,)).astype(one.type.dtype)

    def find(self, size: int, address: int) -> StoredVariable:
        """The variable that an element of this size lies in."""
        return self._by_size[size][bisect_right(self._starts[size], address) - 1]

    def name_of(self, tensor: Tensor) -> str:
        """The variable's name, or the first one's."""
        if not tensor.numElements():
            return "an empty tensor"
        first = tensor._offset if tensor._addresses is None else int(tensor._addresses.reshape(-1)[0])
        return self.find(tensor._type.bytes, first).name

    def touches_constant(self, tensor: Tensor) -> bool:
        if tensor._addresses is None:  # a strided view lies in one variable
            return bool(tensor.numElements()) and self.find(tensor._type.bytes, tensor._offset).value is not None
        return any(self.variables[number].value is not None for number, _ in self.list_regions(tensor))

    def list_regions(self, tensor: Tensor) -> list[tuple[int, Interval]]:
        """(number of a variable, interval in it), for each run of neighbouring elements."""
        found = []
        if tensor._addresses is None and tensor.numElements() and tensor.isContiguous():
            variable = self.find(tensor._type.bytes, tensor._offset)
            begin = tensor._offset - variable.start
            return [(variable.number, Interval(begin, begin + tensor.numElements()))]
        flat = tensor.addresses().reshape(-1)
        for begin, end in tensor.getContiguousRegions():
            address, last = int(flat[begin]), int(flat[end - 1])
            while address <= last:
                variable = self.find(tensor._type.bytes, address)
                stop = min(last + 1, variable.start + variable.elements)
                found.append((variable.number, Interval(address - variable.start, stop - variable.start)))
                address = stop
        return found

    def map(self, tensor: Tensor, tile: int) -> None:
        """Put all elements of a tensor on a tile."""
        size = tensor._type.bytes
        log = self._log.get(size)
        if log is None:
            log = self._log[size] = array("q")
            self._others[size] = []
        if tensor._addresses is None:
            shape = tensor._shape
            if len(shape) == 1:
                log.extend((tensor._offset, shape[0], tensor._strides[0], tile))
                return
            if not shape:
                log.extend((tensor._offset, 1, 1, tile))
                return
            elements = tensor.numElements()
            strides = reshape_strides(shape, tensor._strides, (elements,)) if elements else None
            if strides is not None:
                log.extend((tensor._offset, elements, strides[0], tile))
                return
        self._others[size].append((len(log) // 4, tensor.addresses().reshape(-1), tile))

    def map_rows(self, size: int, rows: Ints) -> None:
        """Put many runs of elements on tiles: rows of (offset, length, stride, tile)."""
        log = self._log.get(size)
        if log is None:
            log = self._log[size] = array("q")
            self._others[size] = []
        log.frombytes(rows.astype(np.int64, copy=False).tobytes())

    def by_size(self, size: int) -> list[StoredVariable]:
        """Variables of one element size, by address."""
        return self._by_size.get(size, [])

    def list_tiles(self, tensor: Tensor) -> list[tuple[int, int, int]]:
        """(tile, begin, end) of the flattened tensor, for each run of elements on one tile."""
        count = tensor.numElements()
        if not count:
            return []
        tile_map = self.tile_map(tensor._type.bytes)
        if tensor._addresses is None and tensor.isContiguous():
            first = tensor._offset
            low = int(np.searchsorted(tile_map.starts, first, "right")) - 1
            high = int(np.searchsorted(tile_map.starts, first + count, "left"))
            cuts = [0, *(tile_map.starts[low + 1 : high] - first).tolist(), count]
            tiles = tile_map.tiles[low:high].tolist()
        else:
            every = tile_map.find(tensor.addresses().reshape(-1))
            cuts = [0, *(np.flatnonzero(np.diff(every)) + 1).tolist(), count]
            tiles = every[cuts[:-1]].tolist()
        found: list[tuple[int, int, int]] = []
        for tile, begin, end in zip(tiles, cuts[:-1], cuts[1:], strict=True):
            if found and found[-1][0] == tile:
                found[-1] = (tile, found[-1][1], end)
            else:
                found.append((tile, begin, end))
        return found

    def tile_map(self, size: int) -> TileMap:
        """The tile of every element of this size, as mapped so far."""
        log = self._log.get(size, array("q"))
        others = self._others.get(size, [])
        state = (len(log), len(others), self.spaces.get(size, 0))
        known = self._maps.get(size)
        if known is None or known[0] != state:
            rows = np.array(log, dtype=np.int64).reshape(-1, 4)
            known = self._maps[size] = (state, self._work_out(size, rows, others))
        return known[1]

    def _work_out(self, size: int, rows: Ints, others: list[tuple[int, Ints, int]]) -> TileMap:
        variables = self._by_size.get(size, [])
        by_variable: dict[int, list[tuple[int, Ints | tuple[int, int, int], int]]] = {}
        owners = np.searchsorted(np.array(self._starts.get(size, []), dtype=np.int64), rows[:, 0], "right") - 1
        for place, (owner, row) in enumerate(zip(owners.tolist(), rows.tolist(), strict=True)):
            if row[1]:
                by_variable.setdefault(owner, []).append((place, (row[0], row[1], row[2]), row[3]))
        for place, addresses, tile in others:
            starts = np.array(self._starts[size], dtype=np.int64)
            found = np.searchsorted(starts, addresses, "right") - 1
            for owner in np.unique(found).tolist():
                by_variable.setdefault(owner, []).append((place, addresses[found == owner], tile))
        starts_found: list[Ints] = []
        tiles_found: list[npt.NDArray[np.int32]] = []
        for number, variable in enumerate(variables):
            orders = by_variable.get(number, [])
            if others:
                orders.sort(key=lambda order: (order[0], isinstance(order[1], tuple)))
            cuts, tiles = _apply(variable, orders)
            starts_found.append(cuts)
            tiles_found.append(tiles)
        if not starts_found:
            return TileMap(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32))
        return TileMap(np.concatenate(starts_found), np.concatenate(tiles_found))


def _apply(
    variable: StoredVariable, orders: list[tuple[int, Ints | tuple[int, int, int], int]]
) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Mappings of one variable in the order in which they were given; the last one counts."""
    first = variable.start
    if not orders:
        return np.array([first], dtype=np.int64), np.array([NO_TILE], dtype=np.int32)
    if len(orders) == 1 and isinstance(orders[0][1], tuple) and orders[0][1][1:] == (variable.elements, 1):
        return np.array([first], dtype=np.int64), np.array([orders[0][2]], dtype=np.int32)
    held = np.full(variable.elements, NO_TILE, dtype=np.int32)
    for _, where, tile in orders:
        if isinstance(where, tuple):
            begin, length, stride = where[0] - first, where[1], where[2]
            if stride == 1:
                held[begin : begin + length] = tile
            elif stride > 0:
                held[begin : begin + (length - 1) * stride + 1 : stride] = tile
            else:
                held[begin + np.arange(length) * stride] = tile
        else:
            held[where - first] = tile
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(held)) + 1])
    return cuts + first, held[cuts]
