"""Rows taken from a table by index, and rows added into it: embedding, gather, index, scatter.

In: entries in the table, elements a row, number of lookups. Out: the stages of popops multiSlice and multiUpdateAdd for
the best of a few hundred splits: columns over tiles, entries over tiles (a second stage then picks the right partial
row), lookups over tiles (the table is then broadcast).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, StepKind
from openipu.ops.kernels import COPY, FILL, SCALED_ADD
from openipu.ops.rule import ceil_divide
from openipu.ops.rules.elementwise import cost_cast
from openipu.ops.rules.reduction import Reduction, reduce_elements
from openipu.ops.steps import Steps, exchange, name_vertex, pass_over, wrap

_GATHER_BASIS = "Poplibs multiSlice: W(30 + k(19 + 2 c(elements / 2))), 8 cycles a lookup out of range; two stages"
_SCATTER_BASIS = "Poplibs multiUpdateAdd: zero float partials, W(33 + k(12 + 3(atoms - 1))), reduction, scaled add"
_UPDATE_BASIS = "Poplibs multiUpdate, as multiUpdateAdd without partials: W(33 + k(12 + 3(atoms - 1)))"
_INDEX_BYTES = 4
_ATOM_ELEMENTS = 2  # published: a slice moves two halves or two floats at a time
_OUT_OF_RANGE_CYCLES = 8


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a table."""

    entries: int
    row: int  # elements
    lookups: int
    dtype: torch.dtype

    @property
    def element_bytes(self) -> int:
        return Operand((), self.dtype).element_bytes


@dataclass(frozen=True, slots=True)
class Split:
    """How many pieces each dimension is cut into; the product is at most the number of tiles."""

    columns: int
    entries: int
    lookups: int

    @property
    def tiles(self) -> int:
        return self.columns * self.entries * self.lookups


def cost_gather_of(problem: Lookup, context: CostContext) -> OpCost:
    """The fastest split whose temporary memory is allowed; the leanest if none is."""
    if not problem.lookups or not problem.row:
        return wrap(Family.GATHER, (), basis=_GATHER_BASIS)
    options = [(split, *_gather_steps(problem, split, context)) for split in _list_splits(problem, context)]
    split, steps, scratch = _choose(options, context)
    plan = {"column_splits": split.columns, "entry_splits": split.entries, "lookup_splits": split.lookups}
    return OpCost(
        Family.GATHER,
        steps,
        scratch_bytes_per_tile=scratch,
        provenance=Provenance.DERIVED,
        basis=_GATHER_BASIS,
        plan=plan,
    )


def cost_scatter_of(problem: Lookup, context: CostContext, *, from_zero: bool) -> OpCost:
    """Rows added into a table of zeros, or into a copy of one."""
    table = problem.entries * problem.row
    background = FILL if from_zero else COPY
    steps: Steps = pass_over(background, table, torch.float32, context, name="table")
    scratch = 0
    plan: dict[str, int] = {}
    if problem.lookups and problem.row and problem.entries:
        options = [(split, *_scatter_steps(problem, split, context)) for split in _list_splits(problem, context)]
        split, update, scratch = _choose(options, context)
        steps += update
        plan = {"column_splits": split.columns, "entry_splits": split.entries, "lookup_splits": split.lookups}
    if problem.dtype is torch.float16:  # partials are float
        whole, narrow = Operand((table,), torch.float32), Operand((table,), torch.float16)
        steps += cost_cast(OpSite("cast", (whole,), {}, (narrow,)), context).steps
    if not from_zero:
        steps += pass_over(SCALED_ADD, table, problem.dtype, context, inputs=2, name="add to table")
    return OpCost(
        Family.SCATTER,
        steps,
        scratch_bytes_per_tile=scratch,
        provenance=Provenance.DERIVED,
        basis=_SCATTER_BASIS,
        plan=plan,
    )


def cost_update_of(problem: Lookup, context: CostContext) -> OpCost:
    """Rows written over those of a copy of a table. Nothing is added up, so that there are no partial tables: every
    tile gets all rows, as far as its own columns reach, and writes those of its own entries where they lie."""
    table = problem.entries * problem.row
    steps: Steps = pass_over(COPY, table, problem.dtype, context, name="table")
    scratch = 0
    plan: dict[str, int] = {}
    if problem.lookups and problem.row and problem.entries:
        options = [
            (split, *_write_rows(problem, split, context, adds=False))
            for split in _list_splits(problem, context)
            if split.lookups == 1
        ]
        split, update, scratch = _choose(options, context)
        steps += update
        plan = {"column_splits": split.columns, "entry_splits": split.entries}
    return OpCost(
        Family.SCATTER,
        steps,
        scratch_bytes_per_tile=scratch,
        in_place=True,
        provenance=Provenance.DERIVED,
        basis=_UPDATE_BASIS,
        plan=plan,
    )


Option = tuple[Split, Steps, int]


def _choose(options: list[Option], context: CostContext) -> Option:
    limit = context.available_memory_proportion * context.target.tile_memory_bytes
    allowed = [option for option in options if option[2] <= limit]
    if not allowed:
        return min(options, key=lambda option: (option[2], _count_cycles(option[1], context)))
    return min(allowed, key=lambda option: (_count_cycles(option[1], context), option[2]))


def _count_cycles(steps: Steps, context: CostContext) -> float:
    """What a split is chosen by: its steps and the launch of each exchange."""
    launches = sum(step.kind is StepKind.EXCHANGE for step in steps)
    return sum(step.total_cycles for step in steps) + launches * context.target.phase_launch_cycles


def _list_splits(problem: Lookup, context: CostContext) -> Iterator[Split]:
    """Powers of two, and all that is left of the tiles, in each dimension."""
    for columns in _list_counts(ceil_divide(problem.row, _ATOM_ELEMENTS), context.tiles):
        for entries in _list_counts(problem.entries, context.tiles // columns):
            for lookups in _list_counts(problem.lookups, context.tiles // (columns * entries)):
                yield Split(columns, entries, lookups)


def _list_counts(size: int, tiles: int) -> list[int]:
    most = max(1, min(size, tiles))
    return sorted({1 << bit for bit in range(most.bit_length()) if 1 << bit <= most} | {most})


def _gather_steps(problem: Lookup, split: Split, context: CostContext) -> tuple[Steps, int]:
    columns = ceil_divide(problem.row, split.columns)
    entries = ceil_divide(problem.entries, split.entries)
    lookups = ceil_divide(problem.lookups, split.lookups)
    tiles = split.tiles
    row_bytes = columns * problem.element_bytes
    table_bytes = entries * row_bytes if split.lookups > 1 else 0
    steps = exchange("indices and table", lookups * _INDEX_BYTES + table_bytes, tiles, context, messages=2)
    steps += _slice("slice", problem, columns, lookups, ceil_divide(lookups, split.entries), tiles, context)
    scratch = lookups * (row_bytes + _INDEX_BYTES) + table_bytes
    if split.entries > 1:
        second = ceil_divide(lookups, split.entries)
        arriving = second * split.entries * row_bytes
        steps += exchange("partial rows", arriving, tiles, context, messages=split.entries)
        steps += _slice("slice again", problem, columns, second, second, tiles, context)
        scratch += arriving
    return steps, scratch


def _slice(
    name: str, problem: Lookup, columns: int, lookups: int, in_range: int, tiles: int, context: CostContext
) -> Steps:
    target = context.target
    workers = target.workers_per_tile
    here = ceil_divide(in_range, workers)
    elsewhere = ceil_divide(lookups, workers) - here
    per_row = 19 + 2 * ceil_divide(columns, _ATOM_ELEMENTS)
    cycles = workers * (30 + here * per_row + max(0, elsewhere) * _OUT_OF_RANGE_CYCLES) * target.compute_scale
    written = in_range * columns * problem.element_bytes / target.store_bytes_per_cycle
    vertex = name_vertex("MultiSlice", problem.dtype)
    return (CostStep(StepKind.COMPUTE, name, max(cycles, written), tiles, vertex=vertex),)


def _scatter_steps(problem: Lookup, split: Split, context: CostContext) -> tuple[Steps, int]:
    steps, arriving = _write_rows(problem, split, context, adds=True)
    partial_bytes = ceil_divide(problem.entries, split.entries) * ceil_divide(problem.row, split.columns) * 4
    if split.lookups > 1:
        table = problem.entries * problem.row
        partials = Reduction((split.lookups, table), (0,), torch.float32)
        steps += reduce_elements(partials, context, name="partial tables").steps
    return steps, arriving + partial_bytes


def _write_rows(problem: Lookup, split: Split, context: CostContext, *, adds: bool) -> tuple[Steps, int]:
    """Rows arrive on the tiles of their table, and are added or written; and the bytes of them that a tile holds."""
    target = context.target
    columns = ceil_divide(problem.row, split.columns)
    lookups = ceil_divide(problem.lookups, split.lookups)
    workers = target.workers_per_tile
    arriving = lookups * (columns * problem.element_bytes + _INDEX_BYTES)
    messages = min(8, lookups) + 1
    steps = exchange("rows and indices", arriving, split.tiles, context, messages=messages)
    here = ceil_divide(ceil_divide(lookups, split.entries), workers)
    elsewhere = max(0, ceil_divide(lookups, workers) - here)
    atoms = ceil_divide(columns, _ATOM_ELEMENTS)
    per_worker = 33 + here * (12 + 3 * (atoms - 1)) + elsewhere * _OUT_OF_RANGE_CYCLES
    steps += (
        CostStep(
            StepKind.COMPUTE,
            "add rows" if adds else "write rows",
            workers * per_worker * target.compute_scale,
            split.tiles,
            flops=problem.lookups * problem.row if adds else 0,
            vertex=name_vertex("MultiUpdateAdd" if adds else "MultiUpdate", problem.dtype),
        ),
    )
    return steps, arriving


def count_rows(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, int]:
    """Entries and row length of a table that is indexed along `dims`."""
    entries = math.prod(shape[dim] for dim in dims)
    row = math.prod(size for dim, size in enumerate(shape) if dim not in dims)
    return entries, row
