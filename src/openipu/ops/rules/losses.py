"""Losses: an elementwise pass and a reduction, or a choice of one class a row.

In: a site; whether the loss is reduced shows in the shape of its result. Out: those steps.
"""

from __future__ import annotations

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, StepKind
from openipu.ops.kernels import FILL, MULTIPLY, Kernel, weakest
from openipu.ops.rule import Rule, ceil_divide, read_operand
from openipu.ops.rules.reduction import Reduction, reduce_elements
from openipu.ops.spread import spread_operand
from openipu.ops.steps import Steps, count_held_bytes, exchange, name_vertex, pass_over, wrap

_CHOICE_BASIS = "one class a row by a slice (Poplibs multiSlice: 19 + 2 cycles a lookup), then a reduction"
_LOOKUP_CYCLES = 19 + 2  # published: multiSlice of one element


def loss_of(kernel: Kernel) -> Rule:
    """A rule for a loss between two tensors: a pass, and a sum if the result is one number."""

    def cost_loss(site: OpSite, context: CostContext) -> OpCost:
        operand, result = site.operands[0], site.outputs[0]
        steps = pass_over(kernel, operand.elements, operand.dtype, context, inputs=2)
        scratch = 0
        if result.shape != operand.shape:
            whole = Reduction(operand.shape, tuple(range(len(operand.shape))), operand.dtype)
            reduced = reduce_elements(whole, context, name="sum of losses")
            steps += reduced.steps + pass_over(MULTIPLY, 1, operand.dtype, context, name="mean")
            scratch = reduced.scratch_bytes_per_tile + count_held_bytes(operand.elements, operand.dtype, context)
        return OpCost(
            Family.REDUCTION if result.shape != operand.shape else Family.ELEMENTWISE,
            steps,
            aligned=True,
            scratch_bytes_per_tile=scratch,
            provenance=weakest([kernel.provenance, Provenance.DERIVED]),
            basis="one pass, then the reduction of popops",
        )

    return cost_loss


def cost_negative_log_likelihood(site: OpSite, context: CostContext) -> OpCost:
    """`nll_loss_forward(log_probabilities, target, …)`: one element of each row, then their sum."""
    scores, labels = read_operand(site, 0, "self"), read_operand(site, 1, "target")
    steps = _visit_rows(scores, labels, context, "select class")
    scratch = 0
    if not site.outputs or site.outputs[0].shape != labels.shape:
        whole = Reduction(labels.shape, tuple(range(len(labels.shape))), scores.dtype, sums=2)
        reduced = reduce_elements(whole, context, name="sum of losses")  # the weights are summed with them
        steps += reduced.steps + pass_over(MULTIPLY, 1, scores.dtype, context, name="mean")
        scratch = reduced.scratch_bytes_per_tile
    return wrap(Family.REDUCTION, steps, basis=_CHOICE_BASIS, scratch_bytes_per_tile=scratch)


def cost_negative_log_likelihood_backward(site: OpSite, context: CostContext) -> OpCost:
    """`nll_loss_backward(grad, log_probabilities, target, …)`: zeros, and one element in each row."""
    scores, labels = read_operand(site, 1, "self"), read_operand(site, 2, "target")
    steps = pass_over(FILL, scores.elements, scores.dtype, context, name="zeros")
    steps += _visit_rows(scores, labels, context, "write class")
    return wrap(Family.SCATTER, steps, basis=_CHOICE_BASIS)


def _visit_rows(scores: Operand, labels: Operand, context: CostContext, name: str) -> Steps:
    """The rows of a tile need their labels; a worker then touches one element a row."""
    spread = spread_operand(scores, context)
    if not spread.tiles or not labels.elements:
        return ()
    target = context.target
    classes = max(1, scores.elements // labels.elements)
    rows = ceil_divide(spread.elements, classes) + 1  # a tile border may cut a row
    cycles = target.workers_per_tile * (30 + ceil_divide(rows, target.workers_per_tile) * _LOOKUP_CYCLES)
    step = CostStep(
        StepKind.COMPUTE,
        name,
        cycles * target.compute_scale,
        spread.tiles,
        vertex=name_vertex("RowElement", scores.dtype),
    )
    return (*exchange("labels", rows * labels.element_bytes, spread.tiles, context), step)
