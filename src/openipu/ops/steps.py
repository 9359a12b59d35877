"""The phases that all families are made of: a pass over elements, an exchange, a local copy.

In: how much, on which spread, with which kernel. Out: `CostStep`s of the busiest tile. Syncs are the planner's.
Fixed parts of the formulas are those of the Poplibs cycle estimators: a supervisor call of 20 (one operand) or 11 (two)
cycles, then workers that issue in rotation, so that one worker's cycle is `workers_per_tile` cycles of the tile.
"""

from __future__ import annotations

import math

import torch

from openipu.machine import Provenance, Target
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, Placement, StepKind
from openipu.ops.kernels import COPY, Kernel, Rate, weakest
from openipu.ops.rule import ceil_divide
from openipu.ops.spread import spread_linearly

UNARY_CALL_CYCLES = 20  # published: supervisor part, one operand
BINARY_CALL_CYCLES = 11  # published: supervisor part, two operands
BINARY_SETUP_CYCLES = {True: 26, False: 29}  # published: a worker's fixed part, half or not
_PUBLISHED_VECTOR_BYTES = 8  # the rates are for this datapath width

Steps = tuple[CostStep, ...]


def count_loop_cycles(rate: Rate, elements: int, target: Target) -> int:
    """One worker's cycles for its share of a tile's elements; vector rates scale with the width of the datapath."""
    cycles, per_step = rate
    if per_step > 1:
        per_step = max(1, per_step * target.vector_bytes // _PUBLISHED_VECTOR_BYTES)
    return ceil_divide(elements, target.workers_per_tile * per_step) * cycles


def count_pass_cycles(kernel: Kernel, elements: int, dtype: torch.dtype, inputs: int, target: Target) -> float:
    """Tile cycles of one elementwise vertex over `elements` of the tile."""
    loops = sum(count_loop_cycles(part.rate(dtype), elements, target) for part in kernel.parts)
    if inputs > 1:
        setup = max(BINARY_SETUP_CYCLES[dtype is torch.float16], kernel.setup_cycles)
        cycles = BINARY_CALL_CYCLES + target.workers_per_tile * (setup + loops)
    else:
        cycles = UNARY_CALL_CYCLES + target.workers_per_tile * (kernel.setup_cycles + loops)
    return cycles * target.compute_scale + target.vertex_call_cycles


def pass_over(
    kernel: Kernel,
    elements: int,
    dtype: torch.dtype,
    context: CostContext,
    *,
    inputs: int = 1,
    name: str = "",
) -> Steps:
    """One compute set that touches each of `elements`, spread linearly."""
    spread = spread_linearly(elements, Operand((), dtype).element_bytes, context)
    if not spread.tiles:
        return ()
    return (
        CostStep(
            StepKind.COMPUTE,
            name or kernel.vertex,
            count_pass_cycles(kernel, spread.elements, dtype, inputs, context.target),
            spread.tiles,
            flops=elements * kernel.flops_per_element if dtype.is_floating_point else 0,
            vertex=name_vertex(kernel.vertex, dtype),
        ),
    )


def count_held_bytes(elements: int, dtype: torch.dtype, context: CostContext) -> int:
    """What a temporary of so many elements takes on the busiest tile."""
    element_bytes = Operand((), dtype).element_bytes
    return spread_linearly(elements, element_bytes, context).elements * element_bytes


def exchange(name: str, bytes_per_tile: float, tiles: int, context: CostContext, *, messages: int = 1) -> Steps:
    """Bytes that arrive at the busiest of `tiles` tiles; nothing to move is no step."""
    if bytes_per_tile <= 0 or tiles <= 0:
        return ()
    cycles = math.ceil(bytes_per_tile / context.target.exchange_bytes_per_cycle)
    return (
        CostStep(
            StepKind.EXCHANGE,
            name,
            cycles,
            tiles,
            moved_bytes=math.ceil(bytes_per_tile * tiles),
            messages_per_tile=max(1, messages),
        ),
    )


def rearrange(operand: Operand, context: CostContext, *, name: str = "rearrange", messages: int = 0) -> Steps:
    """Bring a whole tensor into another order: everything is exchanged, then copied on the tile.

    A piece that arrives is a run of elements that stay together; without better knowledge, eight of them a tile.
    """
    spread = spread_linearly(operand.elements, operand.element_bytes, context)
    arriving = spread.elements * operand.element_bytes
    return (
        *exchange(name, arriving, spread.tiles, context, messages=messages or min(8, spread.vectors)),
        *pass_over(COPY, operand.elements, operand.dtype, context, name=f"{name}: copy"),
    )


def name_vertex(vertex: str, dtype: torch.dtype) -> str:
    """A vertex type is compiled once for each number format, under the names of the IPU's C++ dialect."""
    if dtype is torch.float16:
        return f"popops::{vertex}<half>"
    if dtype.is_floating_point:
        return f"popops::{vertex}<float>"
    return f"popops::{vertex}<bool>" if dtype is torch.bool else f"popops::{vertex}<int>"


def combine(family: Family, *costs: OpCost, basis: str = "", placement: Placement | None = None) -> OpCost:
    """One op made of several: the steps in order, the worst scratch, the weakest provenance."""
    return OpCost(
        family,
        tuple(step for cost in costs for step in cost.steps),
        placement if placement is not None else costs[-1].placement,
        result_tiles=max(cost.result_tiles for cost in costs),
        scratch_bytes_per_tile=max(cost.scratch_bytes_per_tile for cost in costs),
        laid_out=tuple(entry for cost in costs for entry in cost.laid_out),
        provenance=weakest(cost.provenance for cost in costs),
        basis=basis or "; ".join(dict.fromkeys(cost.basis for cost in costs if cost.basis)),
        plan={key: value for cost in costs for key, value in cost.plan.items()},
    )


def wrap(
    family: Family,
    steps: Steps,
    *,
    basis: str,
    provenance: Provenance = Provenance.DERIVED,
    placement: Placement = Placement.LINEAR,
    scratch_bytes_per_tile: int = 0,
) -> OpCost:
    """A cost from steps and where they are from."""
    return OpCost(
        family,
        steps,
        placement,
        scratch_bytes_per_tile=scratch_bytes_per_tile,
        provenance=provenance,
        basis=basis,
    )


def choose_dtype(site: OpSite) -> torch.dtype:
    """The format that the arithmetic runs in: the widest floating format among operands, else the first operand's."""
    floating = [operand for operand in site.operands if operand.dtype.is_floating_point and operand.shape]
    candidates = floating or list(site.operands) or list(site.outputs)
    return max(candidates, key=lambda operand: operand.element_bytes).dtype
