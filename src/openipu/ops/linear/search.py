"""Finds the plans worth having: for each amount of temporary memory, the fastest.

In: a `Convolution` and the `Figures`. Out: the frontier of (temporary bytes, cycles), cached by shape, and the choice
under a memory bound. The frontier does not depend on the bound, so less memory never gives a faster plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from openipu.ops.linear.candidates import Candidates, Pieces, cut_pieces, evaluate, operand_exchange_cycles
from openipu.ops.linear.figures import Figures
from openipu.ops.linear.kernels import Floats, Ints
from openipu.ops.linear.shapes import Convolution
from openipu.ops.linear.splits import enumerate_splits
from openipu.ops.linear.variants import Method, Variant, list_input_loops, list_output_loops, list_variants

CANDIDATE_CAP = 4000  # fully priced in one variant
SERIAL_CANDIDATE_CAP = 500  # the same with a serial loop, of which there are many
# A serial loop only saves memory: where the fastest plan needs less than this share of a tile there is no use for it.
SERIAL_SHARE_OF_TILE = 1 / 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """One plan: a variant and its piece counts."""

    variant: Variant
    splits: tuple[int, ...]
    temporary_bytes: float
    cycles: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan taken, and how often the memory bound had to be doubled for it (`None`: given up)."""

    candidate: Candidate
    bound_doublings: int | None


def choose_plan(problem: Convolution, figures: Figures, available_memory_proportion: float) -> Choice:
    """The fastest plan within the bound. Where none is, the bound doubles, as in Poplibs, up to twice the tile."""
    frontier = find_frontier(problem, figures)
    bound_bytes = available_memory_proportion * figures.tile_memory_bytes
    if bound_bytes <= 0:
        return Choice(frontier[-1], None)  # no memory is granted: the least there is
    doublings = 0
    while frontier[-1].temporary_bytes > bound_bytes:
        if bound_bytes > figures.tile_memory_bytes:
            return Choice(frontier[0], None)
        bound_bytes *= 2
        doublings += 1
    return Choice(next(plan for plan in frontier if plan.temporary_bytes <= bound_bytes), doublings)


@lru_cache(maxsize=4096)
def find_frontier(problem: Convolution, figures: Figures) -> tuple[Candidate, ...]:
    """Fastest first; each next one is slower and needs less temporary memory."""
    priced = [_price(variant, figures, CANDIDATE_CAP) for variant in list_variants(problem, figures)]
    fastest = min(priced, key=lambda candidates: float(candidates.total_cycles.min()))
    if _needs_memory(fastest, figures):
        smallest = min(priced, key=lambda candidates: float(candidates.temporary_bytes.min()))
        for variant in dict.fromkeys((fastest.variant, smallest.variant)):
            priced += _price_loops(list_output_loops(variant), figures)
            priced += _price_loops(list_input_loops(variant), figures)
    return _keep_frontier(priced)


def _needs_memory(candidates: Candidates, figures: Figures) -> bool:
    """Whether the fastest of these is large enough that a serial loop may be wanted."""
    needed_bytes = float(candidates.temporary_bytes[candidates.total_cycles.argmin()])
    return needed_bytes > SERIAL_SHARE_OF_TILE * figures.tile_memory_bytes


def _price_loops(variants: Iterable[Variant], figures: Figures) -> list[Candidates]:
    """More and more turns, until even the fastest plan is small."""
    priced = []
    for variant in variants:
        priced.append(_price(variant, figures, SERIAL_CANDIDATE_CAP))
        if not _needs_memory(priced[-1], figures):
            break
    return priced


def _price(variant: Variant, figures: Figures, cap: int) -> Candidates:
    pieces = cut_pieces(variant, enumerate_splits(variant, figures.tiles))
    count = pieces.tiles.size
    if count > cap:
        pieces = pieces.keep(_select_promising(variant, pieces, figures, cap))
    return evaluate(variant, pieces, figures)


def _select_promising(variant: Variant, pieces: Pieces, figures: Figures, cap: int) -> Ints:
    """Most of the cap by a quick estimate of cycles, the rest by least memory."""
    few = cap // 8
    quick = _estimate_cycles(variant, pieces, figures)
    memory = (pieces.input_elements + pieces.weight_elements) * figures.element_bytes
    memory = memory + pieces.partial_elements * figures.partial_bytes
    fast = np.argpartition(quick, cap - few)[: cap - few]
    small = np.argpartition(memory, few)[:few]
    return np.union1d(fast, small)


def _estimate_cycles(variant: Variant, pieces: Pieces, figures: Figures) -> Floats:
    """Operand exchange, rows through the units, coefficient loads, and partials to be summed."""
    points = pieces.partial_elements / np.maximum(1, pieces.groups * pieces.out_blocks * variant.out_block)
    blocks = pieces.groups * pieces.kernel_rows * variant.view.kernel_width * pieces.in_blocks * pieces.out_blocks
    if variant.method is Method.MULTIPLY_ACCUMULATE:
        block = points * (7 + variant.in_block)
    else:
        block = figures.coefficient_load_cycles + 26 * figures.workers + figures.cycles_per_row * points
    depth = pieces.splits[4] * pieces.splits[5]
    summed = pieces.partial_elements * figures.partial_bytes * (1 - 1 / depth)
    estimate: Floats = (
        operand_exchange_cycles(pieces, figures)
        + figures.compute_scale * blocks * block
        + summed / figures.exchange_bytes_per_cycle
    )
    return estimate


def _keep_frontier(priced: list[Candidates]) -> tuple[Candidate, ...]:
    cycles = np.concatenate([candidates.total_cycles for candidates in priced])
    memory = np.concatenate([candidates.temporary_bytes for candidates in priced])
    owner = np.repeat(np.arange(len(priced)), [candidates.total_cycles.size for candidates in priced])
    column = np.concatenate([np.arange(candidates.total_cycles.size) for candidates in priced])
    order = np.lexsort((memory, cycles))
    lowest_before = np.concatenate([[np.inf], np.minimum.accumulate(memory[order])[:-1]])
    best = order[memory[order] < lowest_before]
    return tuple(
        Candidate(
            variant=priced[owner[index]].variant,
            splits=tuple(int(count) for count in priced[owner[index]].pieces.splits[:, column[index]]),
            temporary_bytes=float(memory[index]),
            cycles=float(cycles[index]),
        )
        for index in best
    )
