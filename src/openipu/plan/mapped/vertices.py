"""Cycles of a compute set, tile by tile.

In: vertices with their tiles and estimates. Out: cycles of each tile, and of its workers added up. A tile's workers
take its vertices in turn, in the order in which they were added, and issue in rotation: so one cycle of a worker is
`workers_per_tile` cycles of the tile, and the tile is done when its slowest worker is. That reproduces the published
profile of the matrix-vector tutorial: 3,786.0 cycles where it says 3,801.8, and 3,716.0 without idle threads where it
says 3,717.6.

A vertex without an estimate is counted by a rule, and marked as a guess: a fixed start, one cycle for each word of 8
bytes that its fields make it load or store, and one for each such word of its longest field that it calculates with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openipu.graph.mapped.codelets import Access, Array, Batch, Form
from openipu.graph.mapped.program import NO_ESTIMATE, MappedComputeSet, MappedProgram, VertexBatch
from openipu.graph.mapped.views import Ints

START_CYCLES = 20
WORD_BYTES = 8
GUESS_BASIS = (
    f"no estimate: {START_CYCLES} cycles, one for each {WORD_BYTES} bytes loaded or stored, one for each {WORD_BYTES} "
    "bytes of the longest field"
)
ESTIMATE_BASIS = "setPerfEstimate; workers in rotation, the slowest counts"


@dataclass(frozen=True, slots=True, eq=False)
class ComputeCycles:
    """One execution of a compute set."""

    by_tile: Ints  # with idle workers
    busy_by_tile: Ints  # without
    vertices_by_tile: Ints
    flops: int
    guessed: bool


def measure_compute(program: MappedProgram, compute_set: MappedComputeSet) -> ComputeCycles:
    """Cycles by tile."""
    tiles, workers = program.tiles, program.system.target.workers_per_tile
    if not compute_set.batches:
        nothing = np.zeros(tiles, dtype=np.int64)
        return ComputeCycles(nothing, nothing, nothing, 0, False)
    numbers = np.concatenate([batch.numbers for batch in compute_set.batches])
    places = np.concatenate([batch.tiles for batch in compute_set.batches]).astype(np.int64)
    counted = [count_cycles(program, batch) for batch in compute_set.batches]
    cycles = np.concatenate(counted)
    guessed = any(bool((batch.cycles == NO_ESTIMATE).any()) for batch in compute_set.batches)
    places = np.maximum(places, 0)
    order = np.lexsort((numbers, places))
    places, cycles = places[order], cycles[order]
    firsts = np.searchsorted(places, np.arange(tiles))
    turn = (np.arange(len(places)) - firsts[places]) % workers
    loads = np.bincount(places * workers + turn, cycles, tiles * workers).reshape(tiles, workers)
    return ComputeCycles(
        by_tile=(loads.max(axis=1) * workers).astype(np.int64),
        busy_by_tile=loads.sum(axis=1).astype(np.int64),
        vertices_by_tile=np.bincount(places, minlength=tiles),
        flops=sum(int(batch.flops.sum()) for batch in compute_set.batches),
        guessed=guessed,
    )


def count_cycles(program: MappedProgram, batch: VertexBatch) -> Ints:
    """Cycles of each vertex of a batch: the user's, the codelet's own, or by the rule."""
    missing = batch.cycles == NO_ESTIMATE
    if not missing.any():
        return batch.cycles
    codelet = program.codelets[batch.codelet]
    own = codelet.estimate(_describe_batch(program, batch))
    if own is None:
        loaded = stored = longest = 0
        for entry in codelet.fields:
            amount = sum(edges.length * edges.type.bytes for edges in batch.edges.get(entry.name, ()))
            loaded += amount if entry.access.reads else 0
            stored += amount if entry.access.writes else 0
            longest = max(longest, amount)
        words = sum(-(-amount // WORD_BYTES) for amount in (loaded, stored, longest))
        own = np.full(batch.count, START_CYCLES + words, dtype=np.int64)
    return np.where(missing, own, batch.cycles)


def _describe_batch(program: MappedProgram, batch: VertexBatch) -> Batch:
    """Sizes without data, for a codelet that counts its own cycles."""
    arrays: dict[str, Array | list[Array]] = {}
    for entry in program.codelets[batch.codelet].fields:
        if entry.access is Access.STATE or entry.name not in batch.edges:
            continue
        rows = [
            np.broadcast_to(np.zeros((), dtype=edges.type.dtype), (batch.count, edges.length))
            for edges in batch.edges[entry.name]
        ]
        arrays[entry.name] = rows if entry.form is Form.VECTOR_LIST else rows[0]
    return Batch(batch.count, arrays, batch.state)


def measure_state(program: MappedProgram, compute_set: MappedComputeSet) -> Ints:
    """Bytes of vertex state on each tile: a pointer for a scalar, pointer and size for a vector, the plain members."""
    held = np.zeros(program.tiles, dtype=np.int64)
    for batch in compute_set.batches:
        each = 4  # the code's address
        for entry in program.codelets[batch.codelet].fields:
            if entry.access is Access.STATE:
                state = batch.state.get(entry.name)
                each += 4 if state is None else max(4, state.nbytes // max(1, len(state)))
            elif entry.form is Form.SCALAR:
                each += 4
            elif entry.form is Form.VECTOR:
                each += 8
            else:
                each += 8 + 8 * len(batch.edges.get(entry.name, ()))
        held += each * np.bincount(np.maximum(batch.tiles, 0), minlength=program.tiles)
    return held
