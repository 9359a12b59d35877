"""Columns of vertices become batches: vertices of one codelet whose fields have the same sizes.

In: a compute set's columns. Out: a `MappedComputeSet`. A field that was never connected is an error that names the
vertex and the line where it was added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openipu.graph.mapped import Access, Array, Edges, ElementType, Form, Ints, MappedComputeSet, VertexBatch
from poplar._errors import graph_connection_error
from poplar._lines import find_line
from poplar._vertices import FieldColumn, Registered, VertexTable

_STRIDE_LIMIT = 1 << 40  # a stride that no memory has: rows that are spelled out


class _Rows:
    """One field of all vertices of a codelet: by place among them."""

    def __init__(self, count: int) -> None:
        self.starts: Ints = np.zeros(count, dtype=np.int64)
        self.lengths: Ints = np.full(count, -1, dtype=np.int64)
        self.strides: Ints = np.ones(count, dtype=np.int64)
        self.spelled: dict[int, Ints] = {}


def build_compute_set(table: VertexTable, registered: Sequence[Registered]) -> MappedComputeSet:
    """Group the vertices of a compute set."""
    codelets = np.frombuffer(table.codelets, dtype=np.int32) if len(table.codelets) else np.zeros(0, dtype=np.int32)
    batches: list[VertexBatch] = []
    for number in np.unique(codelets).tolist():
        vertices = np.flatnonzero(codelets == number)
        batches.extend(_build_batches(table, registered[number], vertices))
    return MappedComputeSet(table.name, tuple(batches))


def _build_batches(table: VertexTable, one: Registered, vertices: Ints) -> list[VertexBatch]:
    place_of = np.full(len(table.codelets), -1, dtype=np.int64)
    place_of[vertices] = np.arange(len(vertices))
    rows: dict[str, list[_Rows]] = {}
    keys: list[Ints] = []
    for entry in one.fields.values():
        if entry.access is Access.STATE:
            continue
        column = table.columns.get((one.number, entry.name))
        if entry.form is Form.VECTOR_LIST:
            rows[entry.name], sizes = _read_lists(table, one, entry.name, column, place_of, vertices)
            keys.append(sizes)
        else:
            found = _read_rows(table, one, entry.name, column, place_of, vertices)
            rows[entry.name] = [found]
            keys.extend((found.lengths, found.strides))
    states, state_keys = _read_state(table, one, place_of, vertices)
    keys.extend(state_keys)
    return [_pick(table, one, vertices, group, rows, states) for group in _group(keys, len(vertices))]


def _group(keys: list[Ints], count: int) -> list[Ints]:
    """Places with the same sizes, in order of their first vertex."""
    if all(bool((key == key[0]).all()) for key in keys if count):
        return [np.arange(count)]
    _, inverse = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    order = np.argsort(inverse, kind="stable")
    cuts = np.flatnonzero(np.diff(inverse[order])) + 1
    return sorted(np.split(order, cuts), key=lambda group: int(group[0]))


def _read_rows(
    table: VertexTable, one: Registered, name: str, column: FieldColumn | None, place_of: Ints, vertices: Ints
) -> _Rows:
    found = _Rows(len(vertices))
    column = column or FieldColumn()
    simple = np.array(column.simple, dtype=np.int64).reshape(-1, 4)
    _refuse_double(table, one, name, column, simple)
    if len(simple):
        places = place_of[simple[:, 0]]
        found.starts[places], found.lengths[places], found.strides[places] = simple[:, 1], simple[:, 2], simple[:, 3]
    for first, starts, length, stride in column.bulk:
        places = place_of[first : first + len(starts)]
        found.starts[places], found.lengths[places], found.strides[places] = starts, length, stride
    for vertex, addresses in column.scattered:
        place = int(place_of[vertex])
        found.lengths[place], found.strides[place] = len(addresses), _STRIDE_LIMIT
        found.spelled[place] = addresses
    found.strides[found.lengths == 1] = 1
    for place in [place for place, row in found.spelled.items() if len(row) == 1]:
        found.starts[place] = found.spelled.pop(place)[0]
    missing = np.flatnonzero(found.lengths < 0)
    if len(missing):
        _refuse_missing(table, one, name, int(vertices[missing[0]]), len(missing))
    return found


def _read_lists(
    table: VertexTable, one: Registered, name: str, column: FieldColumn | None, place_of: Ints, vertices: Ints
) -> tuple[list[_Rows], Ints]:
    """Lists of vectors: one `_Rows` for each place in the list. The key numbers the distinct sizes."""
    lists = [] if column is None else column.lists
    seen: dict[tuple[int, ...], int] = {}
    sizes = np.full(len(vertices), -1, dtype=np.int64)
    longest = max((len(tensors) for _, tensors in lists), default=0)
    found = [_Rows(len(vertices)) for _ in range(longest)]
    for vertex, tensors in lists:
        place = int(place_of[vertex])
        if sizes[place] >= 0:
            _refuse_twice(table, one, name, vertex)
        sizes[place] = seen.setdefault(tuple(tensor.numElements() for tensor in tensors), len(seen))
        for row, tensor in zip(found, tensors, strict=False):
            row.lengths[place] = tensor.numElements()
            row.strides[place] = _STRIDE_LIMIT
            row.spelled[place] = tensor.addresses().reshape(-1)
    missing = np.flatnonzero(sizes < 0)
    if len(missing):
        _refuse_missing(table, one, name, int(vertices[missing[0]]), len(missing))
    return found, sizes


def _read_state(
    table: VertexTable, one: Registered, place_of: Ints, vertices: Ints
) -> tuple[dict[str, list[Any]], list[Ints]]:
    states: dict[str, list[Any]] = {}
    keys: list[Ints] = []
    for entry in one.fields.values():
        if entry.access is not Access.STATE:
            continue
        given = table.state.get((one.number, entry.name), {})
        values: list[Any] = [0 if entry.form is Form.SCALAR else ()] * len(vertices)
        for vertex, value in given.items():
            values[int(place_of[vertex])] = value
        states[entry.name] = values
        if entry.form is not Form.SCALAR:
            keys.append(np.array([len(value) for value in values], dtype=np.int64))
    return states, keys


def _pick(
    table: VertexTable,
    one: Registered,
    vertices: Ints,
    group: Ints,
    rows: dict[str, list[_Rows]],
    states: dict[str, list[Any]],
) -> VertexBatch:
    numbers = vertices[group]
    edges: dict[str, tuple[Edges, ...]] = {}
    for name, entry in one.fields.items():
        if name in rows:
            assert entry.type is not None
            scalar = entry.form is Form.SCALAR
            made = (_make_edges(row, group, entry.type, scalar=scalar) for row in rows[name])
            edges[name] = tuple(found for found in made if found is not None)
    state: dict[str, Array] = {}
    for name, values in states.items():
        element = one.fields[name].type
        state[name] = np.array([values[place] for place in group.tolist()], dtype=element.dtype if element else None)
    return VertexBatch(
        codelet=one.number,
        numbers=numbers,
        tiles=np.frombuffer(table.tiles, dtype=np.int32)[numbers],
        cycles=np.frombuffer(table.cycles, dtype=np.int64)[numbers],
        flops=np.frombuffer(table.flops, dtype=np.int64)[numbers],
        edges=edges,
        state=state,
        lines=np.frombuffer(table.lines, dtype=np.int32)[numbers].astype(np.int64),
    )


def _make_edges(row: _Rows, group: Ints, element: ElementType, *, scalar: bool) -> Edges | None:
    length = int(row.lengths[group[0]])
    if length < 0:  # a shorter list of vectors has no such place
        return None
    if int(row.strides[group[0]]) == _STRIDE_LIMIT:
        addresses = np.stack([row.spelled[place] for place in group.tolist()])
        if length and bool((np.diff(addresses, axis=1) == 1).all()):
            return Edges(element, length, scalar, addresses[:, 0].copy())
        return Edges(element, length, scalar, addresses=addresses)
    return Edges(element, length, scalar, row.starts[group], int(row.strides[group[0]]))


def _refuse_double(table: VertexTable, one: Registered, name: str, column: FieldColumn, simple: Ints) -> None:
    connected = np.concatenate(
        [
            simple[:, 0],
            np.array([vertex for vertex, _ in column.scattered], dtype=np.int64),
            *(np.arange(first, first + len(starts)) for first, starts, _, _ in column.bulk),
        ]
    )
    counts = np.bincount(connected, minlength=1) if len(connected) else np.zeros(1, dtype=np.int64)
    if counts.max(initial=0) > 1:
        _refuse_twice(table, one, name, int(counts.argmax()))


def _refuse_twice(table: VertexTable, one: Registered, name: str, vertex: int) -> None:
    raise graph_connection_error(
        f"Field {name!r} of vertex {vertex} of compute set {table.name!r}, a {one.codelet.name} (added at "
        f"{find_line(table.lines[vertex])}), is connected twice. Connect each field once."
    )


def _refuse_missing(table: VertexTable, one: Registered, name: str, vertex: int, count: int) -> None:
    more = f" The same is true of {count - 1} more vertices." if count > 1 else ""
    raise graph_connection_error(
        f"Field {name!r} of vertex {vertex} of compute set {table.name!r}, a {one.codelet.name} (added at "
        f"{find_line(table.lines[vertex])}), is not connected. Connect it: "
        f'graph.connect(vertex["{name}"], tensor).{more}'
    )
