"""Compute sets while a graph is built: vertices as columns, so that a hundred thousand of them are cheap.

In: vertices and connections, one by one or many at once. Out: batches of vertices whose fields have the same sizes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped import NO_ESTIMATE, NO_TILE, Access, Codelet, ElementType, Field, Form, Ints
from poplar._errors import index_error, unknown_field

if TYPE_CHECKING:
    from poplar._tensor import Tensor


@dataclass(slots=True, eq=False)
class Registered:
    """A codelet of a graph."""

    number: int
    codelet: Codelet
    fields: dict[str, Field]
    quick: dict[str, tuple[ElementType | None, int, bool]] = field(default_factory=dict)  # type, rank, whether written

    def __post_init__(self) -> None:
        for entry in self.fields.values():
            if entry.access is not Access.STATE and entry.form is not Form.VECTOR_LIST:
                rank = 1 if entry.form is Form.VECTOR else 0
                self.quick[entry.name] = (entry.type, rank, entry.access.writes)


@dataclass(slots=True, eq=False)
class FieldColumn:
    """What is connected to one field of one codelet in one compute set."""

    simple: array[int] = field(default_factory=lambda: array("q"))  # rows of (vertex, start, length, stride)
    scattered: list[tuple[int, Ints]] = field(default_factory=list)  # (vertex, addresses)
    lists: list[tuple[int, list[Tensor]]] = field(default_factory=list)  # (vertex, vectors)
    bulk: list[tuple[int, Ints, int, int]] = field(default_factory=list)  # (first vertex, starts, length, stride)


class VertexTable:
    """The vertices of one compute set."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.codelets = array("i")
        self.tiles = array("i")
        self.cycles = array("q")
        self.flops = array("q")
        self.lines = array("i")
        self.columns: dict[tuple[int, str], FieldColumn] = {}
        self.state: dict[tuple[int, str], dict[int, Any]] = {}
        self.sizes: dict[tuple[int, str], int] = {}
        self.library: int | None = None  # a library op that stands in for vertices

    def add(self, codelet: int, line: int) -> int:
        number = len(self.codelets)
        self.codelets.append(codelet)
        self.tiles.append(NO_TILE)
        self.cycles.append(NO_ESTIMATE)
        self.flops.append(0)
        self.lines.append(line)
        return number

    def add_many(
        self, codelet: int, count: int, tiles: npt.NDArray[np.int32], cycles: npt.NDArray[np.int64], line: int
    ) -> int:
        first = len(self.codelets)
        self.codelets.extend(array("i", np.full(count, codelet, dtype=np.int32).tobytes()))
        self.tiles.extend(array("i", tiles.astype(np.int32).tobytes()))
        self.cycles.extend(array("q", cycles.astype(np.int64).tobytes()))
        self.flops.extend(array("q", bytes(8 * count)))
        self.lines.extend(array("i", np.full(count, line, dtype=np.int32).tobytes()))
        return first

    def column(self, codelet: int, name: str) -> FieldColumn:
        key = (codelet, name)
        found = self.columns.get(key)
        if found is None:
            found = self.columns[key] = FieldColumn()
        return found


class ComputeSet:
    """Vertices that run at the same time."""

    __slots__ = ("table",)

    def __init__(self, table: VertexTable) -> None:
        self.table = table

    def getId(self) -> int:
        return self.table.number

    @property
    def name(self) -> str:
        return self.table.name

    def __repr__(self) -> str:
        return f"<ComputeSet {self.table.name!r} with {len(self.table.codelets)} vertices>"


class VertexRef:
    """A vertex of a graph. `vertex["field"]` is what tensors are connected to."""

    __slots__ = ("number", "registered", "table")

    def __init__(self, table: VertexTable, number: int, registered: Registered) -> None:
        self.table = table
        self.number = number
        self.registered = registered

    def __getitem__(self, name: str) -> FieldRef:
        if name not in self.registered.fields:
            raise unknown_field(describe_unknown(self.registered, name))
        return FieldRef(self, name)

    def getId(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"<vertex {self.number} of {self.table.name!r}, a {self.registered.codelet.name}>"


class FieldRef:
    """A field of a vertex, or one entry of a field that has several."""

    __slots__ = ("name", "place", "vertex")

    def __init__(self, vertex: VertexRef, name: str, place: int | None = None) -> None:
        self.vertex = vertex
        self.name = name
        self.place = place

    def __getitem__(self, place: int) -> FieldRef:
        if self.place is not None or place < 0:
            raise index_error(f"Field {self.name} has one level of entries; {place} is none of them.")
        return FieldRef(self.vertex, self.name, int(place))


def describe_unknown(registered: Registered, name: str) -> str:
    known = ", ".join(registered.fields) or "none"
    return f"The codelet {registered.codelet.name} has no field {name!r}. Its fields: {known}."
