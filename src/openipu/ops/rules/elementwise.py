"""Elementwise ops: every element of the result depends on the elements at the same place.

In: a kernel of `kernels.py`. Out: a rule. Two operands of the result's shape must lie as the result does (the planner
moves those that do not); a smaller one is broadcast: each tile receives the part that its elements need.
"""

from __future__ import annotations

from collections.abc import Mapping

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, Placement, StepKind
from openipu.ops.kernels import (
    ADD,
    BROADCAST_ADD,
    BROADCAST_MULTIPLY,
    COPY,
    CUBE,
    INVERSE,
    MULTIPLY,
    POWER,
    RSQRT,
    SQRT,
    SQUARE,
    Kernel,
)
from openipu.ops.rule import Rule, ceil_divide, largest_operand, read_argument
from openipu.ops.spread import spread_linearly, spread_operand
from openipu.ops.steps import Steps, choose_dtype, exchange, name_vertex, pass_over, wrap

_BASIS = "Poplibs popops/popnn cycle estimators: 20 + W(17 + loops) one operand, 11 + W(26 | 29 + loops) two"


# A scalar or a row stays in registers: one load less for each vector.
_BROADCAST_FORMS: Mapping[Kernel, Kernel] = {ADD: BROADCAST_ADD, MULTIPLY: BROADCAST_MULTIPLY}
_POWERS: Mapping[float, Kernel] = {2.0: SQUARE, 3.0: CUBE, 0.5: SQRT, -0.5: RSQRT, -1.0: INVERSE, 1.0: COPY}


def map_elements(kernel: Kernel, family: Family = Family.ELEMENTWISE) -> Rule:
    """A rule that runs `kernel` once over the result."""

    def cost_map(site: OpSite, context: CostContext) -> OpCost:
        return cost_elements(kernel, site, context, family)

    return cost_map


def cost_elements(kernel: Kernel, site: OpSite, context: CostContext, family: Family = Family.ELEMENTWISE) -> OpCost:
    """One pass over the result, after the small operands have reached its tiles."""
    result = max(site.outputs, key=lambda output: output.elements) if site.outputs else largest_operand(site)
    full = [operand for operand in site.operands if operand.shape == result.shape]
    dtype = choose_dtype(site)
    if len(full) < 2:
        kernel = _BROADCAST_FORMS.get(kernel, kernel)
    aligned = len(full) > 1
    steps, scratch = broadcast_operands(site, result, context, only_scalars=aligned)
    steps += pass_over(kernel, result.elements, dtype, context, inputs=max(1, len(site.operands)))
    first = site.operands[0] if site.operands else None
    return OpCost(
        family,
        steps,
        Placement.FOLLOW if full else Placement.LINEAR,
        aligned=aligned,
        scratch_bytes_per_tile=scratch,
        in_place=first is not None and first.shape == result.shape and first.element_bytes == result.element_bytes,
        provenance=kernel.provenance,
        basis=_BASIS,
    )


def broadcast_operands(
    site: OpSite, result: Operand, context: CostContext, *, only_scalars: bool = False
) -> tuple[Steps, int]:
    """One exchange for the operands that are smaller than the result, and the bytes that a tile receives.

    Where operands must be aligned the planner brings all but single numbers to the result's tiles.
    """
    spread = spread_operand(result, context)
    small = [operand for operand in site.operands if operand.shape != result.shape and operand.elements]
    if only_scalars:
        small = [operand for operand in small if operand.elements == 1]
    if spread.tiles <= 1:
        return (), 0
    # A tile with so many neighbouring elements of the result needs at most as many of a broadcast operand.
    arriving = sum(min(operand.elements, spread.elements) * operand.element_bytes for operand in small)
    return exchange("broadcast operands", arriving, spread.tiles, context, messages=len(small)), arriving


def cost_power(site: OpSite, context: CostContext) -> OpCost:
    """A power with a known exponent is a square, a root or an inverse; any other is exp(y log x)."""
    exponent = read_argument(site, 1, "exponent")
    if isinstance(exponent, int | float):
        return cost_elements(_POWERS.get(float(exponent), POWER), site, context)
    return cost_elements(POWER, site, context)


def cost_cast(site: OpSite, context: CostContext) -> OpCost:
    """A change of number format: the wider side sets the pace. The same format on the IPU is a copy."""
    source, result = site.operands[-1], site.outputs[0]  # `copy(self, src)` reads its second
    same_kind = source.dtype.is_floating_point == result.dtype.is_floating_point
    if source.shape != result.shape or (source.element_bytes == result.element_bytes and same_kind):
        return cost_elements(COPY, OpSite(site.op, (source,), {}, site.outputs), context)
    target = context.target
    spread = spread_linearly(result.elements, min(source.element_bytes, result.element_bytes), context)
    wide_bytes = max(source.element_bytes, result.element_bytes)
    vectors = ceil_divide(spread.elements * wide_bytes, target.vector_bytes)
    per_worker = ceil_divide(vectors, target.workers_per_tile)
    cycles = target.workers_per_tile * (per_worker + 26) * target.compute_scale  # published: W(max(load, store) + 26)
    vertex = name_vertex(f"Cast{source.dtype.itemsize}", result.dtype)
    step = CostStep(StepKind.COMPUTE, "Cast", cycles, spread.tiles, vertex=vertex)
    return wrap(
        Family.ELEMENTWISE,
        (step,) if spread.tiles else (),
        basis="Poplibs cast: W(max(load, store) + 26)",
        provenance=Provenance.PUBLISHED,
        placement=Placement.FOLLOW,
    )
