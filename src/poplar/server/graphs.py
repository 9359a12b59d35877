"""Requests about graphs: variables, vertices, tile mappings, streams.

What C++ programs do a hundred thousand times (vertices, connections, mappings) arrives here as rows of numbers, which
become columns of the graph without a loop.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.graph import SourceLine
from openipu.graph.mapped import NO_ESTIMATE, NO_TILE, ElementType
from poplar import _lines
from poplar._errors import graph_connection_error
from poplar._estimators import VertexIntrospector
from poplar._graph import Graph
from poplar._names import normalise_name
from poplar._tensor import Tensor
from poplar._vertices import FieldRef, Registered, VertexRef, VertexTable
from poplar.execution.streams import ReplicatedStreamMode
from poplar.server.devices import describe_target
from poplar.server.programs import build_programs
from poplar.server.session import Session, at_line, handles
from poplar.server.wire import ComputeSetNumber, Handle

Numbers = npt.NDArray[np.int64]


@handles("graph.create")
def create(session: Session, target: Handle, replicas: int) -> Any:
    graph = Graph(session.find(target), replicas)
    return [session.keep_graph(graph), describe_target(session, graph.getTarget())]


@handles("graph.virtual")
def create_virtual(session: Session, graph: Handle, tiles: Numbers) -> Any:
    made = session.find(graph).createVirtualGraph(tiles.tolist())
    return [session.keep_graph(made), describe_target(session, made.getTarget())]


@handles("graph.top")
def find_top(session: Session, graph: Handle) -> Any:
    made = session.find(graph).getTopLevelGraph()
    return [session.keep_graph(made), describe_target(session, made.getTarget())]


@handles("graph.addVariable")
def add_variable(session: Session, graph: Handle, element: ElementType, shape: Numbers, context: list[Any]) -> Tensor:
    with at_line(context) as name:
        made: Tensor = session.find(graph).addVariable(element, shape.tolist(), name)
        return made


@handles("graph.addConstant")
def add_constant(
    session: Session, graph: Handle, element: ElementType, shape: Numbers, values: bytes, context: list[Any]
) -> Tensor:
    numbers = np.frombuffer(values, dtype="<f8")
    given = numbers if element.is_floating else numbers.astype(np.int64)
    with at_line(context) as name:
        made: Tensor = session.find(graph).addConstant(element, shape.tolist(), given, name)
        return made


@handles("graph.clone")
def clone(
    session: Session, graph: Handle, element: ElementType, tensor: Tensor, method: str, context: list[Any]
) -> Tensor:
    with at_line(context) as name:
        made: Tensor = session.find(graph).clone(element, tensor, name)
        return made


@handles("tensor.containsConstant")
def contains_constant(session: Session, tensor: Tensor) -> bool:
    return tensor.containsConstant()


@handles("graph.getTileMapping")
def get_tile_mapping(session: Session, graph: Handle, tensor: Tensor, complete: bool) -> Numbers:
    """Rows of (tile, begin, end)."""
    mapping = session.find(graph).getTileMapping(tensor, complete)
    rows = [(tile, begin, end) for tile, intervals in enumerate(mapping) for begin, end in intervals]
    return np.array(rows, dtype=np.int64).reshape(-1)


@handles("graph.addCodelets")
def add_codelets(session: Session, graph: Handle, source: str, flags: str, text: bool) -> None:
    import io

    session.find(graph).addCodelets(io.StringIO(source) if text else source, flags)


@handles("graph.describeCodelet")
def describe_codelet(session: Session, graph: Handle, name: str) -> Any:
    one: Registered = session.find(graph)._find_codelet(name)
    fields = [
        [field.name, field.access.value, field.form.value, field.type.name if field.type else ""]
        for field in one.codelet.fields
    ]
    return [one.number, one.codelet.name, fields]


@handles("graph.registerEstimator")
def register_estimator(session: Session, graph: Handle, listener: int, codelet: str) -> str:
    """A function of the program's; the name by which it will be asked comes back."""
    name = normalise_name(codelet)

    def estimate(vertex: VertexIntrospector, target: Any) -> tuple[int, int]:
        fields = [
            [one.name, one.rank(), np.array(one.sizes, dtype=np.int64), list(one.values)]
            for one in vertex.fields.values()
        ]
        cycles, flops = session.channel.ask("estimate", listener, name, fields)
        return int(cycles), int(flops)

    session.find(graph).registerPerfEstimator(name, estimate)
    return name


@handles("graph.addComputeSet")
def add_compute_set(session: Session, graph: Handle, context: list[Any]) -> int:
    with at_line(context) as name:
        number: int = session.find(graph).addComputeSet(name).getId()
        return number


@handles("graph.countVertices")
def count_vertices(session: Session, graph: Handle, computeSet: ComputeSetNumber) -> int:
    return len(session.find(graph).shared.tables[computeSet.number].codelets)


@handles("graph.flush")
def flush(session: Session, graph: int, lines: list[Any], mapped: list[Any], sets: list[Any]) -> None:
    """Take over what the program collected."""
    found = session.find_graph(graph)
    known = session.lines.setdefault(graph, [])
    known.extend(_lines.number_line(SourceLine(file, line, function)) for _, file, line, function in lines)
    for size, rows in mapped:
        found._store.map_rows(size, rows)
    numbered = {one.number: one for one in found.shared.codelets.values()}
    for number, added, tiles, estimates, columns, states in sets:
        table = found.shared.tables[number]
        _add_vertices(table, added.reshape(-1, 2), known)
        _set_column(table.tiles, np.int32, tiles.reshape(-1, 2), 1)
        _set_column(table.cycles, np.int64, estimates.reshape(-1, 3), 1)
        _set_column(table.flops, np.int64, estimates.reshape(-1, 3), 2)
        for codelet, name, rows in columns:
            _check_written(found, table, numbered[codelet], name, rows.reshape(-1, 4))
            table.column(codelet, name).simple.frombytes(rows.tobytes())
        for codelet, name, vertices, values in states:
            held = table.state.setdefault((codelet, name), {})
            element = numbered[codelet].fields[name].type
            numbers = np.frombuffer(values, dtype="<f8")
            given = numbers if element is None or element.is_floating else numbers.astype(np.int64)
            held.update(zip(vertices.tolist(), given.tolist(), strict=True))


def _add_vertices(table: VertexTable, rows: Numbers, lines: list[int]) -> None:
    count = len(rows)
    if not count:
        return
    table.codelets.frombytes(rows[:, 0].astype(np.int32).tobytes())
    table.tiles.frombytes(np.full(count, NO_TILE, dtype=np.int32).tobytes())
    table.cycles.frombytes(np.full(count, NO_ESTIMATE, dtype=np.int64).tobytes())
    table.flops.frombytes(bytes(8 * count))
    table.lines.frombytes(np.array(lines, dtype=np.int32)[rows[:, 1]].tobytes())


def _set_column(column: array[int], dtype: Any, rows: Numbers, place: int) -> None:
    if len(rows):
        np.frombuffer(column, dtype=dtype)[rows[:, 0]] = rows[:, place]  # the view is gone before the column grows


def _check_written(graph: Graph, table: VertexTable, one: Registered, name: str, rows: Numbers) -> None:
    """Outputs must not be constants."""
    field = one.fields[name]
    if not field.access.writes or field.type is None or not len(rows):
        return
    starts = np.array([variable.start for variable in graph._store.by_size(field.type.bytes)], dtype=np.int64)
    constant = np.array([variable.value is not None for variable in graph._store.by_size(field.type.bytes)], dtype=bool)
    hit = constant[np.searchsorted(starts, rows[:, 1], side="right") - 1] & (rows[:, 2] > 0)
    if hit.any():
        vertex = int(rows[int(np.flatnonzero(hit)[0]), 0])
        line = _lines.find_line(table.lines[vertex])
        raise graph_connection_error(
            f"Field {name!r} of vertex {vertex} of compute set {table.name!r}, a {one.codelet.name} (added at {line}), "
            "writes, and what is connected to it is a constant. Connect a variable."
        )


def _refer(session: Session, graph: Handle, number: int, vertex: int, field: str, place: int = -1) -> FieldRef:
    found = session.find(graph)
    table = found.shared.tables[number]
    one = next(one for one in found.shared.codelets.values() if one.number == table.codelets[vertex])
    return FieldRef(VertexRef(table, vertex, one), field, None if place < 0 else place)


@handles("graph.connect")
def connect(session: Session, graph: Handle, number: int, vertex: int, field: str, place: int, value: Any) -> None:
    reference = _refer(session, graph, number, vertex, field, place)
    with _lines.given_line(_lines.find_line(reference.vertex.table.lines[vertex])):
        session.find(graph).connect(reference, value)


@handles("graph.setInitialValue")
def set_initial_value(session: Session, graph: Handle, number: int, vertex: int, field: str, value: Any) -> None:
    reference = _refer(session, graph, number, vertex, field)
    if isinstance(value, bytes):
        numbers = np.frombuffer(value, dtype="<f8")
        element = reference.vertex.registered.fields[field].type
        value = numbers if element is None or element.is_floating else numbers.astype(np.int64)
    session.find(graph).setInitialValue(reference, value)


@handles("graph.setFieldSize")
def set_field_size(session: Session, graph: Handle, number: int, vertex: int, field: str, size: int) -> None:
    session.find(graph).setFieldSize(_refer(session, graph, number, vertex, field), size)


@handles("graph.createHostWrite")
def create_host_write(session: Session, graph: Handle, handle: str, tensor: Tensor) -> None:
    session.find(graph).createHostWrite(handle, tensor)


@handles("graph.createHostRead")
def create_host_read(session: Session, graph: Handle, handle: str, tensor: Tensor) -> None:
    session.find(graph).createHostRead(handle, tensor)


@handles("graph.addHostToDeviceFIFO")
def add_stream_in(
    session: Session, graph: Handle, handle: str, element: ElementType, count: int, mode: int, options: dict[str, str]
) -> int:
    made = session.find(graph).addHostToDeviceFIFO(handle, element, count, ReplicatedStreamMode(mode), options)
    return int(made.number)


@handles("graph.addDeviceToHostFIFO")
def add_stream_out(
    session: Session, graph: Handle, handle: str, element: ElementType, count: int, options: dict[str, str]
) -> int:
    return int(session.find(graph).addDeviceToHostFIFO(handle, element, count, options).number)


@handles("graph.addRemoteBuffer")
def add_remote_buffer(
    session: Session, graph: Handle, handle: str, element: ElementType, count: int, repeats: int
) -> int:
    return int(session.find(graph).addRemoteBuffer(handle, element, count, repeats).number)


@handles("graph.addHostFunction")
def add_host_function(session: Session, graph: Handle, handle: str, inputs: list[Any], outputs: list[Any]) -> int:
    return int(session.find(graph).addHostFunction(handle, inputs, outputs).number)


@handles("graph.addFunction")
def add_function(session: Session, graph: Handle, program: list[Any]) -> int:
    found = session.find(graph)
    (built,) = build_programs(session, found, program)
    return int(found.addFunction(built).number)
