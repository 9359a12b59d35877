"""`Graph`: variables, compute sets, vertices, and where all of them lie.

In: calls by the original's names. Out: what an engine compiles. Mistakes are refused where they are made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openipu.graph.mapped import Access, Codelet, ElementType, Field, Form, count_row_major
from poplar._codelets import Vertex, list_codelets
from poplar._connections import connect_field, connect_many, connect_quickly
from poplar._errors import (
    graph_connection_error,
    graph_object_creation_error,
    graph_replication_error,
    invalid_tile_mapping,
    poplar_error,
    tensor_creation_error,
    type_error,
    unknown_field,
    unknown_vertex_type,
)
from poplar._estimators import PerfEstimateFunc
from poplar._graph_host import HostAccess, Shared, find_type
from poplar._linear import mapTensorLinearly
from poplar._lines import find_line, note_line
from poplar._names import normalise_name
from poplar._target import Device, Target, TargetType
from poplar._tensor import Tensor
from poplar._vertices import ComputeSet, FieldRef, Registered, VertexRef, VertexTable, describe_unknown
from poplar._views import Interval

_SOURCES = (".cpp", ".cc", ".cxx", ".c", ".S", ".gp")


class Graph(HostAccess):
    """A graph for a target. A virtual graph is a part of its tiles."""

    def __init__(self, target: Target | Device, replicationFactor: int = 1) -> None:
        self._target = target.getTarget() if isinstance(target, Device) else target
        self.shared = Shared()
        self._store = self.shared.store
        self._replicas = int(replicationFactor)
        self._tiles: tuple[int, ...] | None = None  # of a virtual graph
        # Tiles that are what they are called: all of a graph that is neither virtual nor replicated.
        self._simple_tiles = self._target.getNumTiles() if self._replicas == 1 else 0
        if self._replicas < 1 or self._target.getNumIPUs() % self._replicas:
            raise graph_replication_error(
                f"{self._target.getNumIPUs()} IPUs cannot be divided into {replicationFactor} equal replicas."
            )

    # -- what it is for --------------------------------------------------------------------------------------------

    def getTarget(self) -> Target:
        if self._tiles is not None:
            return self._target.createVirtualTarget(1, len(self._tiles))
        if self._replicas > 1:
            return self._target.createVirtualTarget(
                self._target.getNumIPUs() // self._replicas, self._target.getTilesPerIPU()
            )
        return self._target

    def getReplicationFactor(self) -> int:
        return self._replicas

    def getTopLevelGraph(self) -> Graph:
        made = Graph.__new__(Graph)
        made.__dict__.update(self.__dict__)
        made._tiles = None
        return made

    def createVirtualGraph(self, *tiles: Any) -> Graph:
        """Part of the tiles: `(n)`, `(low, high)` or a list of tiles."""
        if len(tiles) == 2:
            chosen = tuple(range(int(tiles[0]), int(tiles[1])))
        elif isinstance(tiles[0], Sequence):
            chosen = tuple(int(tile) for tile in tiles[0])
        else:
            chosen = tuple(range(int(tiles[0])))
        count = self._count_tiles()
        if not chosen or min(chosen) < 0 or max(chosen) >= count:
            raise poplar_error(f"createVirtualGraph: tiles {chosen[:3]}… are not among the {count} tiles of the graph.")
        made = Graph.__new__(Graph)
        made.__dict__.update(self.__dict__)
        made._simple_tiles = 0
        made._tiles = chosen if self._tiles is None else tuple(self._tiles[tile] for tile in chosen)
        return made

    def createReplicatedGraph(self, replicationFactor: int) -> Graph:
        made = Graph.__new__(Graph)
        made.__dict__.update(self.__dict__)
        made._replicas = self._replicas * int(replicationFactor)
        made._simple_tiles = 0
        return made

    def _count_tiles(self) -> int:
        return len(self._tiles) if self._tiles is not None else self._target.getNumTiles() // self._replicas

    def _find_tile(self, tile: int) -> int:
        count = self._count_tiles()
        if not 0 <= tile < count and self._target.getTargetType() is not TargetType.CPU:
            raise invalid_tile_mapping(
                f"Tile {tile} does not exist: the graph has {count} tiles, 0 to {count - 1} ({find_line(note_line())})."
            )
        return self._tiles[tile] if self._tiles is not None else int(tile)

    # -- tensors ---------------------------------------------------------------------------------------------------

    def addVariable(
        self, element: ElementType | str, shape: Sequence[int], name: Any = "", mappingMethod: Any = None
    ) -> Tensor:
        """A new variable. With `VariableMappingMethod.LINEAR` it is spread over the tiles at once."""
        if isinstance(name, str):
            made = self._add(element, shape, name, None)
            method = mappingMethod
        else:
            made, method = self._add(element, shape, "", None), name
        if method == VariableMappingMethod.LINEAR:
            mapTensorLinearly(self, made)
        return made

    def addConstant(self, element: ElementType | str, shape: Sequence[int], values: Any, name: str = "") -> Tensor:
        """A constant of one value for all elements, or of one for each."""
        kind = find_type(element)
        size = math.prod(shape)
        given = np.asarray(values)
        if given.size not in (1, size):
            raise tensor_creation_error(f"addConstant: {given.size} values for shape {list(shape)}, which has {size}.")
        filled = np.broadcast_to(given.reshape(-1), (size,)).astype(kind.dtype)
        return self._add(kind, shape, name or "<const>", filled)

    def _add(self, element: ElementType | str, shape: Sequence[int], name: str, value: Any) -> Tensor:
        kind = find_type(element)
        wanted = tuple(int(size) for size in shape)
        if any(size < 0 for size in wanted):
            raise tensor_creation_error(f"A tensor cannot have the shape {list(wanted)}.")
        number = len(self._store.variables)
        made = self._store.add(kind, wanted, name or f"variable {number}", find_line(note_line()), value)
        return Tensor(self, kind, wanted, made.start, count_row_major(wanted))

    def clone(self, source: Any, tensor: Any = None, name: str = "", *rest: Any) -> Tensor:
        """A new variable of the same shape, mapped as the old one: `clone(t)` or `clone(type, t)`."""
        if isinstance(source, Tensor):
            kind, original = source.elementType(), source
            name = tensor if isinstance(tensor, str) else name
        else:
            kind, original = find_type(source), tensor
        made = self._add(kind, original.shape(), name or f"{self._store.name_of(original)}/clone", None)
        whole = self.getTopLevelGraph()
        flat = made.flatten()
        for tile, intervals in enumerate(whole.getTileMapping(original)):
            for begin, end in intervals:
                self._store.map(flat.slice(begin, end), tile)
        return made

    # -- mapping ---------------------------------------------------------------------------------------------------

    def setTileMapping(self, what: Tensor | VertexRef, where: Any) -> None:
        """Put a vertex or a tensor on a tile; or a tensor by intervals of its elements, one list for each tile."""
        if type(where) is int and 0 <= where < self._simple_tiles:
            tile = where
        elif isinstance(where, Sequence):
            assert isinstance(what, Tensor), "Only a tensor is mapped by intervals."
            self._map_intervals(what, where)
            return
        else:
            tile = self._find_tile(int(where))
        if type(what) is VertexRef:
            what.table.tiles[what.number] = tile
            return
        assert isinstance(what, Tensor), f"setTileMapping takes a tensor or a vertex, and got {what!r}."
        self._store.map(what, tile)

    def _map_intervals(self, tensor: Tensor, mapping: Sequence[Sequence[Interval | tuple[int, int]]]) -> None:
        flat = tensor.flatten()
        for tile, intervals in enumerate(mapping):
            for begin, end in intervals:
                if not 0 <= begin <= end <= tensor.numElements():
                    raise invalid_tile_mapping(
                        f"Interval [{begin}, {end}) on tile {tile} is outside of the {tensor.numElements()} elements."
                    )
                if end > begin:
                    self._store.map(flat.slice(begin, end), self._find_tile(tile))

    def getTileMapping(self, what: Tensor | VertexRef, requireComplete: bool = True) -> Any:
        """For each tile the intervals of a tensor's elements that lie there; for a vertex its tile."""
        if isinstance(what, VertexRef):
            return what.table.tiles[what.number]
        found: list[list[Interval]] = [[] for _ in range(self._count_tiles())]
        own = None if self._tiles is None else {tile: place for place, tile in enumerate(self._tiles)}
        for tile, begin, end in self._store.list_tiles(what):
            place = tile if own is None else own.get(tile, -1)
            if 0 <= place < len(found):
                found[place].append(Interval(begin, end))
            elif requireComplete and tile < 0 and self._target.getTargetType() is not TargetType.CPU:
                raise invalid_tile_mapping(
                    f"Element {begin} of {self._store.name_of(what)} has no tile yet. Map it: graph.setTileMapping."
                )
        return found

    def getSortedContiguousRegions(self, tensor: Tensor, regions: Sequence[Interval]) -> list[list[Interval]]:
        """Intervals of elements in the order of memory: what lies together is one list."""
        addresses = tensor.flatten().addresses()
        order = sorted((int(addresses[place]), place) for begin, end in regions for place in range(begin, end))
        found: list[list[Interval]] = []
        last = -2
        for address, place in order:
            if address != last + 1:
                found.append([])
            group = found[-1]
            if group and group[-1].end == place:
                group[-1] = Interval(group[-1].begin, place + 1)
            else:
                group.append(Interval(place, place + 1))
            last = address
        return found

    def reorderToSimplify(self, tensor: Tensor, others: Sequence[Tensor], requireSimple: bool = True) -> None:
        """Nothing to do: an order that is right is kept."""

    # -- vertices --------------------------------------------------------------------------------------------------

    def addCodelets(self, source: Any, *options: Any) -> bool:
        """A `Vertex` class, a module with some, the path of a Python or C++ file, or an object that runs vertices."""
        if isinstance(source, (list, tuple)):
            for entry in source:
                self.addCodelets(entry, *options)
            return True
        if hasattr(source, "read"):  # a stream of C++ source
            found: Sequence[Codelet] = _compile_source(source.read(), options, text=True)
        elif isinstance(source, str) and source.endswith(_SOURCES):
            found = _compile_source(source, options, text=False)
        elif hasattr(source, "run") and hasattr(source, "fields") and not isinstance(source, type):
            found = [source]
        else:
            found = list_codelets(source)
        for codelet in found:
            self._register(codelet)
        return True

    def _register(self, codelet: Codelet) -> Registered:
        known = self.shared.codelets.get(codelet.name)
        if known is not None and (
            known.codelet is codelet or getattr(known.codelet, "cls", 0) is getattr(codelet, "cls", 1)
        ):
            return known
        if known is not None:
            raise graph_object_creation_error(f"There is already another codelet of the name {codelet.name!r}.")
        fields = {entry.name: entry for entry in codelet.fields}
        made = self.shared.codelets[codelet.name] = Registered(len(self.shared.codelets), codelet, fields)
        return made

    def addComputeSet(self, name: str = "") -> ComputeSet:
        number = len(self.shared.tables)
        self.shared.tables.append(VertexTable(number, name or f"compute set {number}"))
        return ComputeSet(self.shared.tables[-1])

    def addVertex(
        self, computeSet: ComputeSet, codelet: str | type[Vertex], connections: Mapping[str, Any] | None = None
    ) -> VertexRef:
        """A new vertex, with tensors for its fields."""
        one = self._find_codelet(codelet)
        table = computeSet.table
        number = table.add(one.number, note_line())
        if connections:
            for name, value in connections.items():
                if connect_quickly(self, table, number, one, name, value):
                    continue
                entry = one.fields.get(name)
                if entry is None:
                    raise unknown_field(describe_unknown(one, name))
                connect_field(self, table, number, one, entry, value)
        return VertexRef(table, number, one)

    def addVertices(
        self,
        computeSet: ComputeSet,
        codelet: str | type[Vertex],
        connections: Mapping[str, Tensor],
        tiles: Any,
        cycles: Any = None,
    ) -> int:
        """Many vertices at once, one for each entry of the first dimension of the connected tensors.

        `tiles` has a tile for each. `cycles` is an estimate for each, or for all. Returns the number of the first.
        """
        one = self._find_codelet(codelet)
        return connect_many(self, computeSet.table, one, connections, tiles, cycles, note_line())

    def _find_codelet(self, codelet: str | type[Vertex]) -> Registered:
        if isinstance(codelet, str):
            one = self.shared.codelets.get(codelet) or self.shared.codelets.get(normalise_name(codelet))
            if one is None:
                known = ", ".join(self.shared.codelets) or "none"
                raise unknown_vertex_type(
                    f"There is no codelet {codelet!r}. Add it with graph.addCodelets. Codelets of this graph: {known}."
                )
            return one
        known_one = self.shared.codelets.get(codelet.__name__)
        return known_one if known_one is not None else self._register(list_codelets(codelet)[0])

    def connect(self, field: FieldRef, value: Any) -> None:
        """A tensor (or a list of them, or a number, which becomes a constant) for a field of a vertex."""
        vertex = field.vertex
        entry = vertex.registered.fields[field.name]
        connect_field(self, vertex.table, vertex.number, vertex.registered, entry, value, field.place)

    def setInitialValue(self, field: FieldRef | Tensor, value: Any) -> None:
        """The value of a state field; for an input field a constant. A whole variable has it when it is loaded."""
        if isinstance(field, Tensor):
            self._store.set_initial(field, value)
            return
        vertex = field.vertex
        entry = vertex.registered.fields[field.name]
        if entry.access is not Access.STATE:
            if not entry.access.reads:
                raise graph_connection_error(f"Field {field.name!r} is an output, which has no initial value.")
            self.connect(field, self._make_constant(entry, value, vertex))
            return
        held = np.asarray(value).tolist()
        if entry.form is not Form.SCALAR and not isinstance(held, list):
            held = [held]
        if entry.form is Form.SCALAR and isinstance(held, list):
            raise type_error(
                f"Field {field.name!r} of {vertex.registered.codelet.name} is one number, not {len(held)}."
            )
        vertex.table.state.setdefault((vertex.registered.number, field.name), {})[vertex.number] = held

    def _make_constant(self, entry: Field, value: Any, vertex: VertexRef) -> Tensor:
        assert entry.type is not None
        given = np.asarray(value)
        made = self.addConstant(entry.type, given.shape, given, f"{entry.name} of {vertex.registered.codelet.name}")
        tile = vertex.table.tiles[vertex.number]
        self._store.map(made, max(0, tile))
        return made

    def setFieldSize(self, field: FieldRef, size: int) -> None:
        """How many entries a field will have; connections then say which."""
        vertex = field.vertex
        vertex.table.sizes[(vertex.number, field.name)] = int(size)

    def setPerfEstimate(self, vertex: VertexRef, cycles: int, flops: int = 0) -> None:
        """How many cycles a vertex takes; the model counts with it."""
        vertex.table.cycles[vertex.number] = cycles
        if flops:
            vertex.table.flops[vertex.number] = int(flops)

    setCycleEstimate = setPerfEstimate

    def registerPerfEstimator(self, codelet: str, function: PerfEstimateFunc) -> None:
        """A function of (vertex, target) that says what vertices without an estimate of their own cost.

        `vertex.getFieldInfo(name)` has sizes and states. The result is cycles, (cycles, flops) or a
        `VertexPerfEstimate`.
        """
        if not callable(function):
            raise type_error(f"registerPerfEstimator: {function!r} cannot be called.")
        self.shared.estimators[normalise_name(codelet)] = function

    registerCycleEstimator = registerPerfEstimator


class VariableMappingMethod:
    """How `addVariable` maps at once."""

    NONE = "NONE"
    LINEAR = "LINEAR"


def _compile_source(source: str, options: Sequence[Any], *, text: bool) -> Sequence[Codelet]:
    """C++ codelets. The compiler's part is imported only where there are some."""
    from poplar.native.loading import load_source

    return load_source(source, options, text=text)
