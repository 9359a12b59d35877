"""Fields and what is connected to them: checked, and written into the columns of a compute set.

In: a field and a tensor, a list of tensors or a number. Out: rows of start, length and stride. Types and ranks that do
not match are errors that name the codelet, the field and the user's line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openipu.graph.mapped import NO_ESTIMATE, Access, Field, Form
from poplar._errors import graph_connection_error, invalid_tile_mapping, type_error, unknown_field
from poplar._lines import find_line
from poplar._tensor import Tensor, concat
from poplar._vertices import Registered, VertexTable, describe_unknown

if TYPE_CHECKING:
    from poplar._graph import Graph

_RANKS = {Form.SCALAR: 0, Form.VECTOR: 1, Form.VECTOR_LIST: 2}


def connect_field(
    graph: Graph,
    table: VertexTable,
    vertex: int,
    one: Registered,
    entry: Field,
    value: Any,
    place: int | None = None,
) -> None:
    """Connect one field, or one entry of it."""
    if entry.access is Access.STATE:
        raise graph_connection_error(
            f"Field {entry.name!r} of {one.codelet.name} is neither Input, Output nor InOut: give it a value with "
            "setInitialValue."
        )
    form = entry.form
    if place is not None:
        _connect_place(graph, table, vertex, one, entry, value, place)
        return
    if type(value) is not Tensor:
        value = _make_tensor(graph, table, vertex, one, entry, value)
        if isinstance(value, list):
            _check_list(table, vertex, one, entry, value)
            table.column(one.number, entry.name).lists.append((vertex, value))
            return
    if value._type is not entry.type:
        _refuse_type(table, vertex, one, entry, value)
    shape = value._shape
    if len(shape) != _RANKS[form]:
        _refuse_rank(table, vertex, one, entry, value)
    if entry.access.writes:
        _check_written(graph, table, vertex, one, entry, value)
    key = (one.number, entry.name)
    column = table.columns.get(key)
    if column is None:
        column = table.column(*key)
    if form is Form.VECTOR_LIST:
        column.lists.append((vertex, [value[row] for row in range(shape[0])]))
    elif value._addresses is not None:
        column.scattered.append((vertex, value._addresses.reshape(-1)))
    elif shape:
        column.simple.extend((vertex, value._offset, shape[0], value._strides[0]))
    else:
        column.simple.extend((vertex, value._offset, 1, 1))


def connect_quickly(graph: Graph, table: VertexTable, vertex: int, one: Registered, name: str, value: Any) -> bool:
    """The common case, without a detour: a strided tensor that fits its field. False: look closer."""
    known = one.quick.get(name)
    if known is None or type(value) is not Tensor or value._addresses is not None:
        return False
    element, rank, written = known
    shape = value._shape
    if value._type is not element or len(shape) != rank or (rank and not shape[0]):
        return False
    if written and graph._store.find(element.bytes, value._offset).value is not None:
        return False
    key = (one.number, name)
    column = table.columns.get(key)
    if column is None:
        column = table.column(*key)
    if rank:
        column.simple.extend((vertex, value._offset, shape[0], value._strides[0]))
    else:
        column.simple.extend((vertex, value._offset, 1, 1))
    return True


def connect_many(
    graph: Graph,
    table: VertexTable,
    one: Registered,
    connections: Mapping[str, Tensor],
    tiles: Any,
    cycles: Any,
    line: int,
) -> int:
    """One vertex for each entry of the first dimension of the tensors."""
    counts = {tensor.dim(0) for tensor in connections.values() if tensor.rank()}
    if len(counts) != 1:
        raise graph_connection_error(
            f"addVertices: the tensors' first dimensions must be equal, one entry a vertex, and are {sorted(counts)}."
        )
    count = counts.pop()
    where = np.broadcast_to(np.asarray(tiles, dtype=np.int64), (count,))
    if count and (where.min() < 0 or where.max() >= graph._count_tiles()):
        raise invalid_tile_mapping(f"addVertices: a tile is outside of the {graph._count_tiles()} tiles of the graph.")
    if graph._tiles is not None:
        where = np.asarray(graph._tiles)[where]
    estimates = np.broadcast_to(np.asarray(NO_ESTIMATE if cycles is None else cycles, dtype=np.int64), (count,))
    first = table.add_many(one.number, count, where.astype(np.int32), estimates, line)
    for name, tensor in connections.items():
        entry = one.fields.get(name)
        if entry is None:
            raise unknown_field(describe_unknown(one, name))
        if tensor._type is not entry.type:
            _refuse_type(table, first, one, entry, tensor)
        if tensor.rank() != _RANKS[entry.form] + 1 or entry.form is Form.VECTOR_LIST:
            _refuse_rank(table, first, one, entry, tensor[0])
        column = table.column(one.number, name)
        if tensor._addresses is not None:
            rows = tensor._addresses.reshape(count, -1)
            column.scattered.extend((first + place, rows[place]) for place in range(count))
            continue
        starts = tensor._offset + np.arange(count, dtype=np.int64) * tensor._strides[0]
        length, stride = (tensor._shape[1], tensor._strides[1]) if entry.form is Form.VECTOR else (1, 1)
        column.bulk.append((first, starts, length, stride))
    return first


def _make_tensor(graph: Graph, table: VertexTable, vertex: int, one: Registered, entry: Field, value: Any) -> Any:
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        if entry.form is Form.VECTOR_LIST:
            return [part.flatten() for part in value]
        return concat([part.flatten() for part in value])
    if isinstance(value, Tensor):
        return value
    if not entry.access.reads or entry.type is None or entry.access.writes:
        raise graph_connection_error(
            f"{_name(table, vertex, one, entry)}: only an input can be a number, not {value!r}."
        )
    given = np.asarray(value)
    made = graph.addConstant(entry.type, given.shape, given, f"{entry.name} of {one.codelet.name}")
    graph._store.map(made, max(0, table.tiles[vertex]))
    return made


def _connect_place(
    graph: Graph, table: VertexTable, vertex: int, one: Registered, entry: Field, value: Any, place: int
) -> None:
    """Entry `place` of a list of vectors, or of a vector."""
    tensor = value if isinstance(value, Tensor) else _make_tensor(graph, table, vertex, one, entry, value)
    if tensor.elementType() is not entry.type:
        _refuse_type(table, vertex, one, entry, tensor)
    column = table.column(one.number, entry.name)
    size = table.sizes.get((vertex, entry.name))
    if size is not None and place >= size:
        raise graph_connection_error(f"{_name(table, vertex, one, entry)} has {size} entries; {place} is none of them.")
    held = next((tensors for number, tensors in reversed(column.lists) if number == vertex), None)
    if held is None:
        held = []
        column.lists.append((vertex, held))
    if place != len(held):
        raise graph_connection_error(
            f"{_name(table, vertex, one, entry)}: connect entries in order; {len(held)} comes next, not {place}."
        )
    held.append(tensor.flatten())
    if entry.form is Form.VECTOR and size is not None and len(held) == size:
        column.lists.remove((vertex, held))
        column.scattered.append((vertex, concat(held).addresses().reshape(-1)))


def _check_list(table: VertexTable, vertex: int, one: Registered, entry: Field, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.elementType() is not entry.type:
            _refuse_type(table, vertex, one, entry, tensor)


def _check_written(
    graph: Graph, table: VertexTable, vertex: int, one: Registered, entry: Field, tensor: Tensor
) -> None:
    if tensor._addresses is None:
        if not tensor.numElements():
            return
        variable = graph._store.find(tensor._type.bytes, tensor._offset)
        constant = variable.value is not None
        name = variable.name
    else:
        constant, name = tensor.containsConstant(), graph._store.name_of(tensor)
    if constant:
        raise graph_connection_error(f"{_name(table, vertex, one, entry)} writes, and {name!r} is a constant.")


def _name(table: VertexTable, vertex: int, one: Registered, entry: Field) -> str:
    return (
        f"Field {entry.name!r} of vertex {vertex} of compute set {table.name!r}, a {one.codelet.name} (added at "
        f"{find_line(table.lines[vertex])})"
    )


def _refuse_type(table: VertexTable, vertex: int, one: Registered, entry: Field, tensor: Tensor) -> None:
    raise type_error(
        f"{_name(table, vertex, one, entry)} takes {entry.type}, and the tensor has {tensor.elementType()}. "
        "Cast the tensor, or use the codelet for that type."
    )


def _refuse_rank(table: VertexTable, vertex: int, one: Registered, entry: Field, tensor: Tensor) -> None:
    wanted = {
        Form.SCALAR: "a scalar: index the tensor, or reshape it to []",
        Form.VECTOR: "one dimension: flatten the tensor",
        Form.VECTOR_LIST: "two dimensions, or a list of tensors",
    }[entry.form]
    raise graph_connection_error(
        f"{_name(table, vertex, one, entry)} is a {entry.form.value}, and the tensor has the shape {tensor.shape()}. "
        f"It needs {wanted}."
    )
