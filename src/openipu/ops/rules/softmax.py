"""Softmax and its logarithm, forward and backward.

In: an operand and the dimension that adds up to one. Out: the compute sets of popnn's stable softmax: maximum,
subtract, exponential, sum, inverse, multiply; backward: multiply, sum, subtract and multiply.
"""

from __future__ import annotations

import dataclasses
import math

from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, StepKind
from openipu.ops.kernels import (
    BROADCAST_ADD,
    BROADCAST_MULTIPLY,
    BROADCAST_SUBTRACT_MULTIPLY,
    COPY,
    EXP,
    INVERSE,
    LOG,
    MULTIPLY,
)
from openipu.ops.linear.variants import TRANSFORM_BASE_CYCLES, rate_transform
from openipu.ops.rule import read_argument, read_dims, read_operand
from openipu.ops.rules.elementwise import cost_cast
from openipu.ops.rules.reduction import Reduction, broadcast_results, reduce_elements
from openipu.ops.spread import spread_operand
from openipu.ops.steps import Steps, count_held_bytes, pass_over, wrap

_BASIS = "popnn stable softmax: max-reduce, subtract, exp, sum-reduce to float, inverse (cast to half), multiply"
_BACKWARD_BASIS = "popnn softmax gradient: multiply, sum-reduce, broadcast subtract-multiply"


def cost_softmax(site: OpSite, context: CostContext) -> OpCost:
    """exp(x - max) / sum of the same."""
    return _cost_forward(site, context)


def cost_fused_softmax(site: OpSite, context: CostContext) -> OpCost:
    """The same along the last dimension, in the order that the products around it work in."""
    last = len(site.outputs[0].shape) - 1
    return _cost_forward(OpSite(site.op, (site.operands[0], last), {}, site.outputs), context, turns=False)


def cost_log_softmax(site: OpSite, context: CostContext) -> OpCost:
    """x - max - log(sum of exp(x - max))."""
    return _cost_forward(site, context, logarithm=True)


def cost_log_sum_exp(site: OpSite, context: CostContext) -> OpCost:
    """max + log(sum of exp(x - max)): the last pass is over rows only."""
    operand = site.operands[0]
    dims = read_dims(read_argument(site, 1, "dim"), len(operand.shape))
    steps, scratch = _sum_exponentials(operand, dims, context)
    scratch += count_held_bytes(operand.elements, operand.dtype, context)  # the exponentials
    rows = Reduction(operand.shape, dims, operand.dtype).results
    steps += pass_over(LOG, rows, operand.dtype, context)
    steps += pass_over(BROADCAST_ADD, rows, operand.dtype, context, inputs=2)
    return _overwrite(wrap(Family.SOFTMAX, steps, basis=_BASIS, scratch_bytes_per_tile=scratch))


def cost_softmax_backward(site: OpSite, context: CostContext) -> OpCost:
    """(grad - sum(grad * y)) * y."""
    gradient, dims = _read_backward(site)
    problem = Reduction(gradient.shape, dims, gradient.dtype)
    reduced = reduce_elements(problem, context, name="sum of products", spreads_results=False)
    count, dtype = gradient.elements, gradient.dtype
    steps = pass_over(MULTIPLY, count, dtype, context, inputs=2, name="gradient x result")
    steps += reduced.steps + broadcast_results(problem, reduced, context, name="broadcast sum")
    steps += pass_over(BROADCAST_SUBTRACT_MULTIPLY, count, dtype, context, inputs=2)
    # The products, or the exponentials, live until the last pass.
    scratch = reduced.scratch_bytes_per_tile + count_held_bytes(count, dtype, context)
    return _overwrite(wrap(Family.SOFTMAX, steps, basis=_BACKWARD_BASIS, scratch_bytes_per_tile=scratch))


def cost_log_softmax_backward(site: OpSite, context: CostContext) -> OpCost:
    """grad - exp(y) * sum(grad)."""
    gradient, dims = _read_backward(site)
    problem = Reduction(gradient.shape, dims, gradient.dtype)
    reduced = reduce_elements(problem, context, name="sum of gradient", spreads_results=False)
    count, dtype = gradient.elements, gradient.dtype
    steps = reduced.steps + broadcast_results(problem, reduced, context, name="broadcast sum")
    steps += pass_over(EXP, count, dtype, context)
    steps += pass_over(BROADCAST_SUBTRACT_MULTIPLY, count, dtype, context, inputs=2)
    # The products, or the exponentials, live until the last pass.
    scratch = reduced.scratch_bytes_per_tile + count_held_bytes(count, dtype, context)
    return _overwrite(wrap(Family.SOFTMAX, steps, basis=_BACKWARD_BASIS, scratch_bytes_per_tile=scratch))


def _turn_view(operand: Operand, context: CostContext) -> Steps:
    """Elements into the order of a view whose last dimension comes first, or back.

    popnn's softmax takes its maximum and its sum along the first dimension of that view, and spreads both over it. What
    a product leaves has the last dimension innermost, so each element moves by itself: Poplibs' rate of the smallest
    pieces. Where there is a matrix for every tile, each makes whole ones, in any order: nothing is turned.
    """
    if math.prod(operand.shape[:-2]) >= context.target.tiles:
        return ()
    held = count_held_bytes(operand.elements, operand.dtype, context)
    tiles = spread_operand(operand, context).tiles
    cycles = TRANSFORM_BASE_CYCLES + rate_transform(operand.element_bytes) * held
    return (CostStep(StepKind.COMPUTE, "turn rows", cycles, tiles, vertex="poplin::Transpose2D"),) if tiles else ()


def _read_backward(site: OpSite) -> tuple[Operand, tuple[int, ...]]:
    gradient = read_operand(site, 0, "grad_output")
    return gradient, read_dims(read_argument(site, 2, "dim"), len(gradient.shape))


def _sum_exponentials(operand: Operand, dims: tuple[int, ...], context: CostContext) -> tuple[Steps, int]:
    """The steps up to the sum, and their scratch."""
    count, dtype = operand.elements, operand.dtype
    extreme = Reduction(operand.shape, dims, dtype, keeps_format=True)
    total = Reduction(operand.shape, dims, dtype)
    largest = reduce_elements(extreme, context, name="maximum", spreads_results=False)
    summed = reduce_elements(total, context, name="sum", spreads_results=False)
    steps = largest.steps + broadcast_results(extreme, largest, context, name="broadcast maximum")
    steps += pass_over(BROADCAST_ADD, count, dtype, context, inputs=2, name="subtract maximum")
    steps += pass_over(EXP, count, dtype, context) + summed.steps
    return steps, max(largest.scratch_bytes_per_tile, summed.scratch_bytes_per_tile)


def _cost_forward(site: OpSite, context: CostContext, *, logarithm: bool = False, turns: bool = True) -> OpCost:
    result = site.outputs[0]
    dims = read_dims(read_argument(site, 1, "dim"), len(result.shape))
    steps: Steps = ()
    if site.operands[0].dtype is not result.dtype:
        cast = OpSite(site.op, (site.operands[0],), {}, (result,))
        steps += cost_cast(cast, context).steps
    summing, scratch = _sum_exponentials(result, dims, context)
    turned = _turn_view(result, context) if turns and not logarithm else ()
    steps += turned + summing
    problem = Reduction(result.shape, dims, result.dtype)
    reduced = reduce_elements(problem, context, spreads_results=False)
    steps += pass_over(LOG if logarithm else INVERSE, problem.results, result.dtype, context, name="of sums")
    if result.is_half:  # sums are float
        steps += pass_over(COPY, problem.results, result.dtype, context, name="cast sums")
    steps += broadcast_results(problem, reduced, context, name="broadcast sums")
    last = BROADCAST_ADD if logarithm else BROADCAST_MULTIPLY
    steps += pass_over(last, result.elements, result.dtype, context, inputs=2) + turned
    return _overwrite(wrap(Family.SOFTMAX, steps, basis=_BASIS, scratch_bytes_per_tile=scratch))


def _overwrite(cost: OpCost) -> OpCost:
    """Softmax and its gradient work in place where their first operand is not needed any more."""
    return dataclasses.replace(cost, in_place=True)
