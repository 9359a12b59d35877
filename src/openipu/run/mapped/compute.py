"""A compute set as one function: vertices of one kind run together, and all read before any writes.

In: a compute set and a memory. Out: a function without arguments. What a vertex reads is copied only where the compute
set writes it; what it writes goes straight to memory where rows lie evenly and nobody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from openipu.errors import MappedRunError
from openipu.graph.mapped.codelets import Access, Array, Batch, Codelet, Field, Form, VertexFault
from openipu.graph.mapped.conflicts import Conflicts
from openipu.graph.mapped.program import Edges, MappedComputeSet, MappedProgram, VertexBatch
from openipu.run.mapped.memory import EdgePort, Memory


@dataclass(slots=True, eq=False)
class _Door:
    """One field of a batch."""

    field: Field
    ports: list[EdgePort]
    snapshot: list[bool]  # for each port: must be copied before anything is written


@dataclass(slots=True, eq=False)
class _Ready:
    """One batch with its doors."""

    batch: VertexBatch
    codelet: Codelet
    doors: list[_Door]


def build_compute_set(
    program: MappedProgram,
    compute_set: MappedComputeSet,
    conflicts: Conflicts,
    memory: Memory,
    *,
    goes_on: bool = False,
) -> Callable[[], bool]:
    """The function that executes a compute set once. With `goes_on` it says whether all vertices returned true."""
    batches = compute_set.batches
    if conflicts.write_write is not None:  # only with checks off: the vertex that was added last wins, as in order
        batches = tuple(sorted(_split(batches), key=lambda batch: int(batch.numbers[0])))
        careful = True
    else:
        careful = False
    ready = [_open(program, batch, number, conflicts, memory, careful=careful) for number, batch in enumerate(batches)]
    name = compute_set.name

    def execute() -> bool:
        pending: list[tuple[list[EdgePort], list[Array]]] = []
        good = True
        gathered = [_gather(one, name) for one in ready]
        for one, (arrays, written) in zip(ready, gathered, strict=True):
            try:
                failed = one.codelet.run(Batch(one.batch.count, arrays, one.batch.state, goes_on))
            except VertexFault as fault:
                raise MappedRunError(_describe_failure(program, name, one, fault.vertex, str(fault))) from fault
            if failed >= 0 and not goes_on:
                raise MappedRunError(_describe_failure(program, name, one, failed, "its compute() returned False."))
            good = good and failed < 0
            pending.extend(written)
        for ports, values in pending:
            for port, value in zip(ports, values, strict=True):
                port.put(value)
        return good

    return execute


def _split(batches: Sequence[VertexBatch]) -> list[VertexBatch]:
    """One batch a vertex."""
    found = []
    for batch in batches:
        for place in range(batch.count):
            pick = slice(place, place + 1)
            found.append(
                VertexBatch(
                    batch.codelet,
                    batch.numbers[pick],
                    batch.tiles[pick],
                    batch.cycles[pick],
                    batch.flops[pick],
                    {name: tuple(_pick(edges, pick) for edges in rows) for name, rows in batch.edges.items()},
                    {name: values[pick] for name, values in batch.state.items()},
                    batch.lines[pick],
                )
            )
    return found


def _pick(edges: Edges, pick: slice) -> Edges:
    starts = None if edges.starts is None else edges.starts[pick]
    addresses = None if edges.addresses is None else edges.addresses[pick]
    return Edges(edges.type, edges.length, edges.scalar, starts, edges.stride, addresses)


def _open(
    program: MappedProgram, batch: VertexBatch, number: int, conflicts: Conflicts, memory: Memory, *, careful: bool
) -> _Ready:
    codelet = program.codelets[batch.codelet]
    doors = []
    touched = bool(conflicts.overlapping)
    for entry in codelet.fields:
        rows = batch.edges.get(entry.name)
        if rows is None:
            continue
        ports, snapshots = [], []
        for place, edges in enumerate(rows):
            if careful:
                snapshot = True
            elif entry.access is Access.INPUT:
                snapshot = (number, entry.name, place) in conflicts.overlapping
            else:
                snapshot = touched  # somebody reads what is written here: it appears only when all are done
            ports.append(EdgePort(memory, edges, direct=not snapshot))
            snapshots.append(snapshot)
        doors.append(_Door(entry, ports, snapshots))
    return _Ready(batch, codelet, doors)


def _gather(
    one: _Ready, compute_set: str
) -> tuple[dict[str, Array | Sequence[Array]], list[tuple[list[EdgePort], list[Array]]]]:
    arrays: dict[str, Array | Sequence[Array]] = {}
    written: list[tuple[list[EdgePort], list[Array]]] = []
    for door in one.doors:
        access = door.field.access
        what = f"Field {door.field.name} of {one.codelet.name} in {compute_set}" if access.reads else ""
        values = [port.get(what) for port in door.ports]
        if access is Access.INPUT:
            values = [np.asarray(value) for value in values]
        arrays[door.field.name] = values if door.field.form is Form.VECTOR_LIST else values[0]
        if access.writes:
            written.append((door.ports, values))
    return arrays, written


def _describe_failure(program: MappedProgram, compute_set: str, one: _Ready, place: int, why: str) -> str:
    if not 0 <= place < one.batch.count:
        return f"A {one.codelet.name} of compute set {compute_set!r} failed: {why}"
    line = program.lines[int(one.batch.lines[place])] if len(program.lines) else None
    where = f" (added at {line})" if line is not None else ""
    number = int(one.batch.numbers[place])
    return f"Vertex {number} of compute set {compute_set!r}, a {one.codelet.name}{where}, failed: {why}"
