"""C++ codelets as the engine sees them.

In: a compiled library. Out: a `NativeCodelet` for each vertex, which runs all vertices of a batch by one message to the
library's process. Tensors in shared memory are used where they lie; others are copied there and back. Vertices stay in
the process between runs: a member that compute() changes keeps its value, as on a tile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped import ELEMENT_TYPES, Access, Array, Batch, ElementType, Field, Form, VertexFault
from poplar._errors import graph_object_creation_error
from poplar._names import normalise_name
from poplar.native.description import FieldType, Kind, Layout, VertexType
from poplar.native.library import CodeletLibrary, compile_counter
from poplar.native.process import CodeletProcess
from poplar.native.tables import merge_tables, write_edges, write_states

REFERENCE_KIND = "c++"
START_CYCLES = 5  # what starting a vertex takes; the tutorials' own guess
_KEPT_BATCHES = 256
_GUESS_SECONDS = 5.0
_WORKERS = 6

_ACCESS = {Kind.STATE: Access.STATE, Kind.INPUT: Access.INPUT, Kind.OUTPUT: Access.OUTPUT, Kind.INOUT: Access.INOUT}
_FORM = {
    Layout.SCALAR: Form.SCALAR,
    Layout.VECTOR: Form.VECTOR,
    Layout.ROWS: Form.VECTOR_LIST,
    Layout.POINTERS: Form.VECTOR,
}


class ProcessHolder:
    """The process of a library: started when it is needed, and again after a crash."""

    def __init__(self, library: CodeletLibrary) -> None:
        self.library = library
        self.batches: OrderedDict[tuple[Any, ...], _Prepared] = OrderedDict()
        self._process: CodeletProcess | None = None
        self._counter: CodeletProcess | None = None
        self._countable = True

    def open(self) -> CodeletProcess:
        if self._process is None or not self._process.is_alive:
            self.batches.clear()
            self._process = CodeletProcess(self.library.code, self.library.title)
        return self._process

    def open_counter(self) -> CodeletProcess | None:
        """A process whose code counts; None where there is no such code."""
        if self._counter is not None and self._counter.is_alive:
            return self._counter
        code = compile_counter(self.library) if self._countable else None
        if code is None:
            self._countable = False
            return None
        self._counter = CodeletProcess(code, self.library.title, _GUESS_SECONDS)
        return self._counter


@dataclass(slots=True, eq=False)
class _Prepared:
    """Vertices in the process: where their fields point, and what must not go while they are there."""

    number: int
    table: bytes
    held: tuple[Array, ...]


class NativeCodelet:
    """One vertex of a library."""

    shares_memory = True

    def __init__(self, holder: ProcessHolder, vertex: VertexType) -> None:
        self._holder = holder
        self._vertex = vertex
        self.name = normalise_name(vertex.name)
        self.fields: Sequence[Field] = tuple(
            _make_field(holder.library.title, vertex, one) for one in vertex.fields if one.layout is not Layout.OPAQUE
        )

    @property
    def reference(self) -> Mapping[str, str]:
        """By the key of the user's own cache: no code comes out of a file."""
        library = self._holder.library
        return {"kind": REFERENCE_KIND, "title": library.title, "key": library.key, "vertex": self.name}

    def run(self, batch: Batch) -> int:
        process = self._holder.open()
        edges = write_edges(self._vertex, batch)
        held = tuple(np.asarray(batch.state[one.name]) for one in self._vertex.fields if one.name in batch.state)
        where = tuple(int(array.__array_interface__["data"][0]) for array in held)
        key = (self.name, batch.count, where, edges.table if edges.is_lasting else b"")
        prepared = self._holder.batches.get(key)
        if prepared is None:
            states = write_states(self._vertex, batch)
            number = process.prepare(self._vertex.index, batch.count, merge_tables(edges, states))
            prepared = self._holder.batches[key] = _Prepared(number, edges.table, (*held, *states.twins))
            while len(self._holder.batches) > _KEPT_BATCHES:
                process.release(self._holder.batches.popitem(last=False)[1].number)
        elif prepared.table != edges.table:
            process.place(prepared.number, edges.table)
            prepared.table = edges.table
        self._holder.batches.move_to_end(key)
        failed = process.run(prepared.number, goes_on=batch.goes_on)
        edges.bring_back()
        return failed

    def estimate(self, batch: Batch) -> npt.NDArray[np.int64] | None:
        """Cycles by the rule of `counting.py`, on zeros in place of data; None where code does not end on zeros."""
        process = self._holder.open_counter()
        if process is None:
            return None
        plain = [one for one in self._vertex.fields if one.is_plain and one.name in batch.state]
        columns = [np.asarray(batch.state[one.name]).reshape(batch.count, -1) for one in plain]
        if columns:
            _, first, inverse = np.unique(
                np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True
            )
        else:
            first, inverse = np.zeros(1, dtype=np.intp), np.zeros(batch.count, dtype=np.intp)
        count = len(first)
        sample = Batch(
            count,
            {name: _zeros_like(values, count) for name, values in batch.arrays.items()},
            {name: np.asarray(values)[first] for name, values in batch.state.items()},
        )
        edges, states = write_edges(self._vertex, sample), write_states(self._vertex, sample)
        try:
            number = process.prepare(self._vertex.index, count, merge_tables(edges, states))
            cycles = process.count(number, count)
            process.release(number)
        except VertexFault:
            return None
        if self._vertex.base == "MultiVertex":
            cycles = -(-cycles // _WORKERS)
        return START_CYCLES + cycles[inverse.reshape(-1)]


def list_native(library: CodeletLibrary) -> list[NativeCodelet]:
    """All codelets of a library; they share its process."""
    holder = ProcessHolder(library)
    return [NativeCodelet(holder, vertex) for vertex in library.vertices]


def _make_field(title: str, vertex: VertexType, one: FieldType) -> Field:
    return Field(one.name, _ACCESS[one.kind], _FORM[one.layout], _find_type(title, vertex, one))


def _find_type(title: str, vertex: VertexType, one: FieldType) -> ElementType:
    found = ELEMENT_TYPES.get(one.type)
    if found is None or found.bytes != one.element_bytes:
        raise graph_object_creation_error(
            f"{title}: member `{one.name}` of vertex {vertex.name} is of type {one.type}, which has "
            f"{one.element_bytes} bytes here and another size on a tile, or none. Use int, long long, float or half."
        )
    return found


def _zeros_like(values: Array | Sequence[Array], count: int) -> Array | Sequence[Array]:
    """One row of zeros for all vertices: they run one after the other."""
    if isinstance(values, np.ndarray):
        return np.broadcast_to(np.zeros((1, *values.shape[1:]), values.dtype), (count, *values.shape[1:]))
    return [np.broadcast_to(np.zeros((1, *row.shape[1:]), row.dtype), (count, *row.shape[1:])) for row in values]
