"""Elementwise programs over large vectors, and what users' own vertices make of them.

In: rows of STREAM, random numbers, and a user's matrix-vector product. Out: predictions by plans of the same PyTorch
ops; for code that a compiler made of C++, or people wrote in assembler, by counting the instructions of its loop.
"""

from __future__ import annotations

import re

import torch

from openipu.errors import FiguresError
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.programs import plan_elements
from openipu.validation.figures.micro.reading import find_bench, read_format, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.validation.figures.rows import FigureRow

_ELEMENTS_PER_TILE = 8192  # fills a part of a tile, and fixed costs no longer matter
_TRIAD_OPERANDS = 3  # two read, one written

# Instructions of one turn of a compiled loop, one element: two loads, multiply, add, store, and the loop's own.
_COMPILED_TRIAD_INSTRUCTIONS = 6
_HALF_STORE_INSTRUCTIONS = 2  # memory is written in 32 bits: half a word is read and merged first
_ASSEMBLER_TRIAD_INSTRUCTIONS = 4  # one vector: two loads, a store, and arithmetic that shares its bundle with the loop
_COMPILED_DOT_INSTRUCTIONS = 5  # two elements: two 64-bit loads, multiply, add, and the loop's own


def scale_and_add(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """STREAM's triad, as two library calls."""
    return first + 3.0 * second


def draw_uniform(like: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(like)


def predict_triad(row: FigureRow) -> Outcome:
    """Bytes a second: two vectors read, one written."""
    bench = find_bench(row)
    dtype = read_format(row, "fp32")
    target = bench.system.target
    implementation = str(row.params.get("impl", "vendor popops"))
    moved = _TRIAD_OPERANDS * dtype.itemsize
    if "popops" in implementation:
        elements = _ELEMENTS_PER_TILE * bench.tiles
        measured = plan_elements(scale_and_add, 2, elements, dtype, bench.system.name)
        rate = moved * elements / target.seconds(measured.cycles)
        return Prediction.around(row.from_si(rate), confidence.ELEMENTWISE, "plan of aten.mul and aten.add")
    if "asm" in implementation:
        per_cycle = _TRIAD_OPERANDS * target.vector_bytes / _ASSEMBLER_TRIAD_INSTRUCTIONS
    else:
        extra = _HALF_STORE_INSTRUCTIONS if dtype is torch.float16 else 0
        per_cycle = moved / (_COMPILED_TRIAD_INSTRUCTIONS + extra)
    rate = per_cycle * bench.tiles * target.clock_hz
    return Prediction.around(row.from_si(rate), confidence.USER_VERTEX, "instructions of the loop")


def predict_random(row: FigureRow) -> Outcome:
    """Uniform numbers a second."""
    bench = find_bench(row)
    elements = _ELEMENTS_PER_TILE * bench.tiles
    measured = plan_elements(draw_uniform, 1, elements, read_format(row, "fp32"), bench.system.name)
    rate = elements / bench.system.target.seconds(measured.cycles)
    return Prediction.around(row.from_si(rate), confidence.ELEMENTWISE, "plan of aten.rand_like")


def predict_matrix_vector(row: FigureRow) -> Outcome:
    """A user's vertex for each row of a matrix: cycles by tile, on average."""
    found = re.search(r"(\d+)x(\d+)", row.workload)
    if not found:
        raise FiguresError(f"Row {row.id}: {row.workload!r} does not say rows x columns.")
    if "sync" in row.metric:
        return Unmodelled("time in sync is mostly the wait for the host, which depends on the host's program")
    rows, columns = int(found.group(1)), int(found.group(2))
    bench = find_bench(row)
    target = bench.system.target
    if "exchange" in row.metric:
        words = rows / bench.tiles * columns + columns  # the matrix, spread by rows, and the whole vector
        phases = 2 * (target.phase_launch_cycles - target.sync_cycles)  # operands in, results out
        moved = words * 4 / target.exchange_bytes_per_cycle
        terms = {"operands": moved, "launches": phases}
        return Prediction.around(moved + phases, confidence.EXCHANGE, "exchange rule", terms=terms)
    if "Model" in row.system:
        return Unmodelled("the vendor's own simulator, which prices a vertex without an estimate in a way of its own")
    fewest, more = divmod(rows, bench.tiles)
    turns = [-(-count // target.workers_per_tile) for count in (fewest + 1, fewest)]
    mean_turns = (more * turns[0] + (bench.tiles - more) * turns[1]) / bench.tiles
    cycles = mean_turns * target.workers_per_tile * columns * _COMPILED_DOT_INSTRUCTIONS / 2
    return Prediction.around(cycles, confidence.USER_VERTEX, "instructions of the loop")


def refuse_stencil(row: FigureRow) -> Outcome:
    """Shares of a roofline or of a run whose program is not described."""
    return Unmodelled("a share of a roofline or of a run: the source does not say grid, steps and vertices")


STREAM_PREDICTORS = (
    Predictor("triad", speaks_of("triad"), predict_triad),
    Predictor("random numbers", speaks_of("prng"), predict_random),
    Predictor("matrix-vector", speaks_of("matvec"), predict_matrix_vector),
    Predictor("stencil", lambda row: row.kind == "micro" and row.unit == "%", refuse_stencil),
)
