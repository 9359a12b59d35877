"""Ops that move or make data without arithmetic: copies, joins, pads, fills.

In: a site. Out: a fill (stores only), a local copy (order kept), or a rearrangement (all exchanged, then copied).
"""

from __future__ import annotations

import torch

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite, Placement
from openipu.ops.kernels import COPY, FILL, INDEX, SELECT, Kernel
from openipu.ops.rule import Rule, largest_operand
from openipu.ops.rules.elementwise import cost_elements
from openipu.ops.spread import spread_operand
from openipu.ops.steps import Steps, count_held_bytes, pass_over, rearrange, wrap

_COPY_BASIS = "local copy at 8 bytes a cycle"
_MOVE_BASIS = "all bytes through the exchange at 4 bytes a cycle and tile, then a local copy at 8"


def fill_with(kernel: Kernel) -> Rule:
    """A rule for results that are made without reading anything."""

    def cost_fill(site: OpSite, context: CostContext) -> OpCost:
        steps: Steps = ()
        for result in site.outputs:
            steps += pass_over(kernel, result.elements, result.dtype, context)
        return wrap(Family.CONSTANT, steps, basis="one store a vector", provenance=kernel.provenance)

    return cost_fill


cost_fill = fill_with(FILL)
cost_count_up = fill_with(INDEX)


def cost_uninitialised(site: OpSite, context: CostContext) -> OpCost:
    """Memory whose content nobody asked for."""
    return wrap(Family.CONSTANT, (), basis="memory is only set aside", provenance=Provenance.DERIVED)


def cost_copy(site: OpSite, context: CostContext) -> OpCost:
    """A copy on the spot; one that asks for a memory format changes the order of elements."""
    memory_format = site.kwargs.get("memory_format")
    if memory_format not in (None, torch.preserve_format):
        return cost_rearrange(site, context)
    cost = cost_elements(COPY, site, context, Family.LAYOUT)
    return wrap(Family.LAYOUT, cost.steps, basis=_COPY_BASIS, provenance=Provenance.DERIVED, placement=Placement.FOLLOW)


def cost_rearrange(site: OpSite, context: CostContext) -> OpCost:
    """The result in a new order: every element of it arrives from elsewhere."""
    steps: Steps = ()
    results = site.outputs or (largest_operand(site),)
    for result in results:
        steps += rearrange(result, context)
    held = max(count_held_bytes(result.elements, result.dtype, context) for result in results)
    return wrap(Family.LAYOUT, steps, basis=_MOVE_BASIS, scratch_bytes_per_tile=held)  # what arrived, until copied


def cost_join(site: OpSite, context: CostContext) -> OpCost:
    """Pieces brought together: each piece is one message or more to the tiles that hold its part."""
    result = site.outputs[0]
    pieces = max(1, len(site.operands))
    spread = spread_operand(result, context)
    messages = min(max(1, spread.vectors), pieces + 1)
    return wrap(Family.LAYOUT, rearrange(result, context, name="join", messages=messages), basis=_MOVE_BASIS)


def cost_place(site: OpSite, context: CostContext) -> OpCost:
    """A piece written into a larger tensor: zeros or a copy of the rest, then the piece is moved in."""
    result = site.outputs[0]
    base = site.operands[0]
    into_base = base.shape == result.shape and len(site.operands) > 1
    piece = site.operands[1] if into_base else base
    background = COPY if into_base else FILL
    steps = pass_over(background, result.elements, result.dtype, context, name="rest of the tensor")
    if piece.elements:
        steps += rearrange(piece, context, name="place piece")
    return wrap(Family.LAYOUT, steps, basis=f"the rest by a pass over it; the piece: {_MOVE_BASIS}")


def cost_triangle(site: OpSite, context: CostContext) -> OpCost:
    """Zero on one side of the diagonal: a selection by position."""
    return cost_elements(SELECT, site, context)


def cost_fold(site: OpSite, context: CostContext) -> OpCost:
    """Overlapping patches added up (or taken out): the larger side is moved, then added once."""
    larger = largest_operand(site)
    smaller = min((*site.outputs, *site.operands), key=lambda operand: operand.elements)
    steps = rearrange(Operand(larger.shape, larger.dtype), context, name="patches")
    steps += pass_over(COPY, smaller.elements, smaller.dtype, context, name="result")
    return wrap(Family.LAYOUT, steps, basis=_MOVE_BASIS, provenance=Provenance.GUESSED)
