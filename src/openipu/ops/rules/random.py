"""Random numbers and dropout, from the tile's hardware generator.

In: a site. Out: one compute set. Cycles of the Poplibs poprand estimators, n elements on the busiest tile:
uniform and normal 4 + 22 W + 4 n / vector width, dropout and Bernoulli 6 + 24 W + 2 n / vector width.
"""

from __future__ import annotations

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, Placement, StepKind
from openipu.ops.kernels import EXP, LOG, MASKED_GRADIENT, MULTIPLY
from openipu.ops.rule import largest_operand
from openipu.ops.rules.sorting import cost_sort_of
from openipu.ops.spread import spread_operand
from openipu.ops.steps import Steps, name_vertex, pass_over, wrap

_BASIS = "Poplibs poprand cycle estimators"


def cost_uniform(site: OpSite, context: CostContext) -> OpCost:
    """Uniform or normal numbers."""
    return _cost_numbers(_draw(_find_result(site), context, "Uniform", 4, 22, 4))


def cost_dropout(site: OpSite, context: CostContext) -> OpCost:
    """Keep or drop each element; the mask of a captured dropout is made by the same vertex."""
    steps = _draw(_find_result(site), context, "Dropout", 6, 24, 2)
    follows = bool(site.operands) and site.operands[0].shape == site.outputs[0].shape if site.outputs else False
    return wrap(
        Family.RANDOM,
        steps,
        basis=_BASIS,
        provenance=Provenance.PUBLISHED,
        placement=Placement.FOLLOW if follows else Placement.LINEAR,
    )


def cost_noisy_relu(site: OpSite, context: CostContext) -> OpCost:
    """Random slopes below zero: numbers drawn, then a choice by sign."""
    result = _find_result(site)
    steps = _draw(result, context, "Uniform", 4, 22, 4)
    steps += pass_over(MASKED_GRADIENT, result.elements, result.dtype, context, inputs=2)
    return wrap(Family.RANDOM, steps, basis=_BASIS, provenance=MASKED_GRADIENT.provenance)


def cost_bernoulli(site: OpSite, context: CostContext) -> OpCost:
    """Ones with a probability: a dropout of ones."""
    return _cost_numbers(_draw(_find_result(site), context, "Bernoulli", 6, 24, 2))


def cost_exponential(site: OpSite, context: CostContext) -> OpCost:
    """The logarithm of a uniform number."""
    result = _find_result(site)
    steps = _draw(result, context, "Uniform", 4, 22, 4)
    steps += pass_over(LOG, result.elements, result.dtype, context)
    steps += pass_over(MULTIPLY, result.elements, result.dtype, context)
    return wrap(Family.RANDOM, steps, basis=_BASIS)


def cost_permutation(site: OpSite, context: CostContext) -> OpCost:
    """Random keys, sorted."""
    result = _find_result(site)
    steps = _draw(result, context, "Uniform", 4, 22, 4) + cost_sort_of(result, 0, context).steps
    return wrap(Family.RANDOM, steps, basis=f"{_BASIS}; sorted by a bitonic network", provenance=Provenance.GUESSED)


def cost_multinomial(site: OpSite, context: CostContext) -> OpCost:
    """Noise added to the logarithms of the weights, then the largest: as many as are drawn."""
    weights = site.operands[0]
    steps = _draw(weights, context, "Uniform", 4, 22, 4)
    steps += pass_over(LOG, weights.elements, weights.dtype, context)
    steps += pass_over(EXP, weights.elements, weights.dtype, context)
    steps += cost_sort_of(weights, len(weights.shape) - 1, context).steps
    return wrap(Family.RANDOM, steps, basis=f"{_BASIS}; the largest by sorting", provenance=Provenance.GUESSED)


def _find_result(site: OpSite) -> Operand:
    return site.outputs[0] if site.outputs else largest_operand(site)


def _cost_numbers(steps: Steps) -> OpCost:
    return wrap(Family.RANDOM, steps, basis=_BASIS, provenance=Provenance.PUBLISHED)


def _draw(
    result: Operand, context: CostContext, vertex: str, call_cycles: int, setup_cycles: int, vector_cycles: int
) -> Steps:
    spread = spread_operand(result, context)
    if not spread.tiles:
        return ()
    target = context.target
    # The generator is an instruction of its own: what compilers of an era add, they add to the set-up alone.
    setup = (call_cycles + target.workers_per_tile * setup_cycles) * target.compute_scale
    cycles = setup + vector_cycles * spread.vectors
    return (
        CostStep(
            StepKind.COMPUTE,
            vertex,
            cycles,
            spread.tiles,
            vertex=name_vertex(vertex, result.dtype),
        ),
    )
