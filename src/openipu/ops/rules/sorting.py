"""Sorting, the k largest, running sums: ops in which every element of a row may meet every other.

In: an operand and a dimension. Out: rounds of compare-and-swap of a bitonic network, as popops sorts; the rounds that
span tiles exchange the whole tensor. Running sums: a scan on each tile, the totals exchanged, then added.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite
from openipu.ops.kernels import ADD, COMPARE, MAXIMUM, Kernel, fuse
from openipu.ops.rule import Rule, ceil_divide, read_argument
from openipu.ops.spread import spread_operand
from openipu.ops.steps import Steps, exchange, pass_over, wrap

_BASIS = "a bitonic network, log2(n)(log2(n) + 1)/2 rounds of compare and swap; rounds that span tiles exchange all"
_SWAP = fuse("CompareAndSwap", COMPARE, MAXIMUM, MAXIMUM)  # values, with their indices carried along


def cost_sort(site: OpSite, context: CostContext) -> OpCost:
    """A whole row in order."""
    operand = site.operands[0]
    keywords = ("dim", 2) if "stable" in site.op else ("dim", 1)
    return cost_sort_of(operand, _read_dim(site, keywords[1], operand), context)


def cost_top(site: OpSite, context: CostContext) -> OpCost:
    """The k largest: rows of k are sorted, then merged pair by pair."""
    operand = site.operands[0]
    count = int(read_argument(site, 1, "k", 1))
    return cost_sort_of(operand, _read_dim(site, 2, operand), context, keep=max(1, count))


def cost_middle(site: OpSite, context: CostContext) -> OpCost:
    """A median or a k-th value: a sorted row, of which one element is taken."""
    operand = site.operands[0]
    position = 2 if "kthvalue" in site.op else 1
    return cost_sort_of(operand, _read_dim(site, position, operand), context)


def cost_sort_of(operand: Operand, dim: int, context: CostContext, keep: int | None = None) -> OpCost:
    """Rounds of a network over one dimension; `keep` elements of each row are wanted."""
    if not operand.elements:
        return wrap(Family.REDUCTION, (), basis=_BASIS)
    length = operand.shape[dim] if operand.shape else 1
    kept = min(length, keep or length)
    kept_bits, other_bits = _bits(kept), _bits(length) - _bits(kept)
    rounds = kept_bits * (kept_bits + 1) // 2 + other_bits * (kept_bits + 1)
    spread = spread_operand(operand, context)
    stride = math.prod(operand.shape[dim + 1 :]) if operand.shape else 1
    local_bits = min(_bits(length), _bits(max(1, spread.elements // stride)))
    local = local_bits * (local_bits + 1) // 2 if keep is None else min(rounds, local_bits * (kept_bits + 1))
    across = max(0, rounds - local) if spread.tiles > 1 else 0
    steps: Steps = _repeat(pass_over(_SWAP, operand.elements, operand.dtype, context, inputs=2), rounds - across)
    # Values travel with their indices, four bytes each.
    arriving = spread.elements * (operand.element_bytes + 4)
    steps += _repeat(exchange("swap partners", arriving, spread.tiles, context), across)
    steps += _repeat(
        pass_over(_SWAP, operand.elements, operand.dtype, context, inputs=2, name="swap across tiles"), across
    )
    scratch = arriving if across else 0
    return wrap(Family.REDUCTION, steps, basis=_BASIS, provenance=Provenance.GUESSED, scratch_bytes_per_tile=scratch)


def cost_search(site: OpSite, context: CostContext) -> OpCost:
    """Where each value belongs in a sorted row: the row is broadcast and halved until the place is found."""
    result = site.outputs[0]
    borders = min(site.operands, key=lambda operand: operand.elements)
    values = max(site.operands, key=lambda operand: operand.elements)
    spread = spread_operand(result, context)
    steps = exchange("borders", borders.elements * borders.element_bytes, spread.tiles, context)
    steps += _repeat(pass_over(COMPARE, result.elements, values.dtype, context), _bits(borders.elements + 1))
    return wrap(Family.REDUCTION, steps, basis="one comparison a halving of the row", provenance=Provenance.GUESSED)


def scan_with(kernel: Kernel) -> Rule:
    """A rule for running sums, products and maxima."""

    def cost_scan(site: OpSite, context: CostContext) -> OpCost:
        operand = site.operands[0]
        dtype = operand.dtype if operand.dtype.is_floating_point else torch.int32
        spread = spread_operand(operand, context)
        steps = pass_over(kernel, operand.elements, dtype, context, name="scan on tile")
        arriving = min(spread.tiles, ceil_divide(operand.elements, max(1, spread.elements))) * 4
        if spread.tiles > 1:
            steps += exchange("totals of tiles before", arriving, spread.tiles, context, messages=spread.tiles - 1)
            steps += pass_over(ADD, operand.elements, dtype, context, inputs=2, name="add totals")
        return wrap(
            Family.REDUCTION, steps, basis="scan on tile, totals exchanged, added", provenance=Provenance.GUESSED
        )

    return cost_scan


def _read_dim(site: OpSite, position: int, operand: Operand) -> int:
    dim = read_argument(site, position, "dim", -1)
    rank = len(operand.shape)
    return int(dim) % rank if rank and isinstance(dim, int) and not isinstance(dim, bool) else max(0, rank - 1)


def _bits(length: int) -> int:
    return max(0, math.ceil(math.log2(length))) if length > 1 else 0


def _repeat(steps: Steps, repeats: int) -> Steps:
    return tuple(replace(step, repeats=repeats) for step in steps) if repeats > 0 else ()
