"""A graph and its programs become a frozen `MappedProgram`.

In: what the user built. Out: the program, and who stands in whose way in each compute set. Everything that is wrong
with tiles, vertices and races is refused here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openipu.graph.mapped import (
    NO_TILE,
    Array,
    Clash,
    Conflicts,
    MappedComputeSet,
    MappedHostFunction,
    MappedProgram,
    MappedRemoteBuffer,
    MappedStream,
    MappedVariable,
    ProgramNode,
    TileMap,
    find_conflicts,
)
from poplar import program as programs
from poplar._errors import graph_connection_error, invalid_tile_mapping
from poplar._estimators import estimate_vertices
from poplar._graph import Graph
from poplar._lines import find_line, list_lines
from poplar._store import StoredVariable
from poplar._target import TargetType
from poplar._vertices import VertexTable
from poplar.execution.batches import build_compute_set
from poplar.execution.lowering import Lowering


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A program and what was found about its compute sets."""

    program: MappedProgram
    conflicts: tuple[Conflicts, ...]


def compile_programs(
    graph: Graph, given: Sequence[programs.Program], *, check_races: bool = True, name: str = "poplar"
) -> Compiled:
    """Freeze a graph."""
    shared, target = graph.shared, graph._target
    needs_tiles = target.getTargetType() is not TargetType.CPU
    registered = sorted(shared.codelets.values(), key=lambda one: one.number)
    lowering = Lowering(graph)
    nodes: tuple[ProgramNode, ...] = tuple(lowering.lower(program) for program in given)
    functions = tuple(lowering.lower(program) for program in shared.functions)
    lowering.refuse_circles(functions)
    used = lowering.compute_sets
    sets = tuple(
        estimate_vertices(build_compute_set(table, registered), registered, shared.estimators, target)
        if table.number in used
        else MappedComputeSet(table.name, ())
        for table in shared.tables
    )
    codelets = tuple(one.codelet for one in registered)
    conflicts = tuple(find_conflicts(compute_set, codelets) for compute_set in sets)
    store = shared.store
    program = MappedProgram(
        name=name,
        system=target.system,
        tiles=graph.getTopLevelGraph()._count_tiles(),
        tiles_per_ipu=target.getTilesPerIPU(),
        replicas=graph._replicas,
        mapped=needs_tiles,
        variables=tuple(
            MappedVariable(one.name, one.type, one.shape, one.start, one.elements, one.line, _choose_first(one))
            for one in store.variables
        ),
        spaces=dict(store.spaces),
        tile_maps={size: store.tile_map(size) for size in store.spaces},
        codelets=codelets,
        compute_sets=sets,
        library_ops=tuple(shared.library_ops),
        functions=functions,
        programs=nodes,
        streams=tuple(MappedStream(one.handle_, one.kind, one.type, one.elements) for one in shared.streams.values()),
        remote_buffers=tuple(
            MappedRemoteBuffer(one.handle_, one.type, one.elements, one.repeats)
            for one in shared.remote_buffers.values()
        ),
        host_functions=tuple(
            MappedHostFunction(
                one.handle_,
                tuple((entry.type, entry.numElements) for entry in one.inputs),
                tuple((entry.type, entry.numElements) for entry in one.outputs),
            )
            for one in shared.host_functions.values()
        ),
        host_writes={handle: tensor.view() for handle, tensor in shared.host_writes.items()},
        host_reads={handle: tensor.view() for handle, tensor in shared.host_reads.items()},
        lines=list_lines(),
        min_sync_cycles=target.min_sync_cycles,
        host_bytes_per_second=target.host_bytes_per_second,
    )
    if needs_tiles:
        _check_tiles(program, shared.tables, used)
    if check_races:
        _check_races(program, conflicts, shared.tables)
    return Compiled(program, conflicts)


def _check_tiles(program: MappedProgram, tables: Sequence[VertexTable], used: frozenset[int]) -> None:
    """Every element and every vertex must have a tile."""
    for variable in program.variables:
        if not variable.elements:
            continue
        place = _find_unmapped(program.tile_maps[variable.type.bytes], variable)
        if place is None:
            continue
        element = program.name_element(variable.type, place)
        raise invalid_tile_mapping(
            f"{element} has no tile: {variable.name!r} was added at {variable.line} and not mapped"
            f"{'' if place == variable.start else ' as a whole'}. Map it with graph.setTileMapping(tensor, tile), or "
            "poputil.mapTensorLinearly(graph, tensor)."
        )
    for table in tables:
        if table.number not in used:
            continue
        tiles = np.array(table.tiles, dtype=np.int32)
        missing = np.flatnonzero(tiles == NO_TILE)
        if len(missing):
            vertex = int(missing[0])
            more = f" So have {len(missing) - 1} more vertices." if len(missing) > 1 else ""
            raise invalid_tile_mapping(
                f"Vertex {vertex} of compute set {table.name!r} (added at {find_line(table.lines[vertex])}) has no "
                f"tile. Give it one: graph.setTileMapping(vertex, tile).{more}"
            )


def _find_unmapped(tile_map: TileMap, variable: MappedVariable) -> int | None:
    low = int(np.searchsorted(tile_map.starts, variable.start, "right")) - 1
    high = int(np.searchsorted(tile_map.starts, variable.start + variable.elements, "left"))
    missing = np.flatnonzero(tile_map.tiles[low:high] == NO_TILE)
    if not len(missing):
        return None
    return max(variable.start, int(tile_map.starts[low + int(missing[0])]))


def _check_races(program: MappedProgram, conflicts: Sequence[Conflicts], tables: Sequence[VertexTable]) -> None:
    for table, found in zip(tables, conflicts, strict=True):
        if found.write_write is not None:
            clash = found.write_write
            raise graph_connection_error(
                f"Compute set {table.name!r}: {_describe(program, clash)} is written by two vertices, "
                f"{_name(program, table, clash.first)} and {_name(program, table, clash.second)}. Vertices of a "
                "compute set run at the same time: let one of them write elsewhere, or in another compute set."
            )
        if found.read_write is not None:
            clash = found.read_write
            raise graph_connection_error(
                f"Compute set {table.name!r}: {_describe(program, clash)} is read by "
                f"{_name(program, table, clash.first)} and written by {_name(program, table, clash.second)}. Vertices "
                "of a compute set run at the same time: put the reader into a later one, or copy the tensor first."
            )


def _describe(program: MappedProgram, clash: Clash) -> str:
    for variable in program.variables:
        inside = variable.start <= clash.address < variable.start + variable.elements
        if variable.type.bytes == clash.size and inside:
            return program.name_element(variable.type, clash.address)
    return f"element {clash.address}"


def _name(program: MappedProgram, table: VertexTable, vertex: int) -> str:
    codelet = program.codelets[table.codelets[vertex]].name
    return f"vertex {vertex} ({codelet}, added at {find_line(table.lines[vertex])})"


def _choose_first(one: StoredVariable) -> Array | None:
    """What memory holds when a program is loaded: a constant, or a variable's first value."""
    return one.initial if one.value is None else one.value
