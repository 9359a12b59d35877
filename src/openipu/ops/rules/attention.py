"""Scaled dot-product attention as one ATen op. An IPU has no fused kernel for it: the scores are written out.

In: queries, keys, values [batch, heads, length, size]. Out: two matmuls around a softmax; backward computes the scores
again and needs four more matmuls.
"""

from __future__ import annotations

import math
from dataclasses import replace

from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite
from openipu.ops.kernels import ADD, BROADCAST_MULTIPLY, MULTIPLY
from openipu.ops.linear import cost_matmul
from openipu.ops.rule import read_argument, read_operand
from openipu.ops.rules.random import cost_dropout
from openipu.ops.rules.softmax import cost_softmax, cost_softmax_backward
from openipu.ops.spread import spread_operand
from openipu.ops.steps import combine, pass_over, wrap

# Where dropout_p and is_causal stand, in the forms that differ from (query, key, value, dropout_p, is_causal).
_POSITIONS = {"_scaled_dot_product_efficient_attention": (5, 6), "scaled_dot_product_attention": (4, 5)}


def cost_attention(site: OpSite, context: CostContext) -> OpCost:
    """`_scaled_dot_product_*(query, key, value, …)`."""
    query, key, value = site.operands[:3]
    dropout_at, causal_at = _POSITIONS.get(site.op.split(".")[1], (3, 4))
    masked = len(site.operands) > 3 or bool(read_argument(site, causal_at, "is_causal", False))
    scores = _scores(query, key)
    parts = _find_weights(query, key, scores, context, masked=masked)
    if read_argument(site, dropout_at, "dropout_p", 0.0) > 0:
        parts.append(cost_dropout(OpSite(site.op, (scores,), {}, (scores,)), context))
    parts.append(_multiply(scores, value.shape[-1], context, site.op))
    return _finish(parts, [scores], context)


def cost_attention_backward(site: OpSite, context: CostContext) -> OpCost:
    """`_scaled_dot_product_*_backward(grad, query, key, value, …)`."""
    query, key = read_operand(site, 1, "query"), read_operand(site, 2, "key")
    value = read_operand(site, 3, "value")
    unmasked_operands = 6  # gradient, query, key, value, result, sums
    masked = len(site.operands) > unmasked_operands or bool(read_argument(site, 7, "is_causal", False))
    scores = _scores(query, key)
    transposed = Operand((*scores.shape[:-2], scores.shape[-1], scores.shape[-2]), scores.dtype)
    rank = len(scores.shape)
    softmax = OpSite(site.op, (scores, scores, rank - 1, scores.dtype), {}, (scores,))
    scaling = pass_over(BROADCAST_MULTIPLY, scores.elements, scores.dtype, context, name="scale gradient")
    parts = [
        *_find_weights(query, key, scores, context, masked=masked),
        _multiply(transposed, value.shape[-1], context, site.op),  # of the values
        _multiply(Operand(query.shape[:-1] + value.shape[-1:], query.dtype), key.shape[-2], context, site.op),
        cost_softmax_backward(softmax, context),
        wrap(Family.SOFTMAX, scaling, basis="one multiply"),
        _multiply(scores, key.shape[-1], context, site.op),  # of the queries
        _multiply(transposed, query.shape[-1], context, site.op),  # of the keys
    ]
    return _finish(parts, [scores, scores], context)


def _scores(query: Operand, key: Operand) -> Operand:
    return Operand((*query.shape[:-1], key.shape[-2]), query.dtype)


def _find_weights(query: Operand, key: Operand, scores: Operand, context: CostContext, *, masked: bool) -> list[OpCost]:
    """Queries times keys, scaled, masked, through a softmax."""
    passes = pass_over(MULTIPLY, scores.elements, scores.dtype, context, name="scale scores")
    if masked:
        passes += pass_over(ADD, scores.elements, scores.dtype, context, inputs=2, name="mask scores")
    softmax = OpSite("attention softmax", (scores, len(scores.shape) - 1), {}, (scores,))
    return [
        _multiply(query, key.shape[-2], context, "attention scores"),
        wrap(Family.SOFTMAX, passes, basis="one pass each for scale and mask"),
        cost_softmax(softmax, context),
    ]


def _multiply(left: Operand, columns: int, context: CostContext, name: str) -> OpCost:
    return cost_matmul(
        batches=math.prod(left.shape[:-2]),
        rows=left.shape[-2],
        inner=left.shape[-1],
        columns=columns,
        half=left.is_half,
        context=context,
        name=name,
    )


def _finish(parts: list[OpCost], written_out: list[Operand], context: CostContext) -> OpCost:
    """Score matrices live beside the scratch of the step that is running."""
    held = sum(spread_operand(scores, context).elements * scores.element_bytes for scores in written_out)
    cost = combine(Family.MATMUL, *parts)
    return replace(cost, scratch_bytes_per_tile=cost.scratch_bytes_per_tile + held)
