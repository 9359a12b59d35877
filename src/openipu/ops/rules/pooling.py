"""Pooling and resampling of images, volumes and sequences.

In: a site with a window (fixed or adaptive). Out: the input's exchange, then one vertex: 3 cycles a vector and window
place (5 for the gradient of a maximum) and 30 a row of results, as the Poplibs popnn pooling estimator counts.
"""

from __future__ import annotations

import math

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, Operand, OpSite, StepKind
from openipu.ops.rule import Rule, ceil_divide, read_argument, read_numbers
from openipu.ops.spread import spread_operand
from openipu.ops.steps import exchange, name_vertex, wrap

_BASIS = "Poplibs popnn pooling: 3 cycles a vector and place (5 for max backward), 30 a row; input exchanged once"
_CYCLES, _MAX_BACKWARD_CYCLES = 3, 5
_ROW_CYCLES = 30


def pool_with(dims: int) -> Rule:
    """`max_pool2d_with_indices(self, kernel_size, …)` and the average: a window of stated size."""

    def cost_pool(site: OpSite, context: CostContext) -> OpCost:
        window = math.prod(read_numbers(read_argument(site, 1, "kernel_size"), dims))
        return _cost_windows(site.operands[0], site.outputs[0], window, context)

    return cost_pool


def pool_backward(dims: int, cycles: int = _CYCLES) -> Rule:
    """`avg_pool2d_backward(grad_output, self, kernel_size, …)`."""

    def cost_pool_backward(site: OpSite, context: CostContext) -> OpCost:
        kernel = read_numbers(read_argument(site, 2, "kernel_size"), dims)
        stride = read_numbers(read_argument(site, 3, "stride") or kernel, dims)
        # An element of the input takes part in so many windows.
        windows = math.prod(ceil_divide(size, step) for size, step in zip(kernel, stride, strict=True))
        return _cost_windows(site.operands[0], site.outputs[0], windows, context, cycles)

    return cost_pool_backward


def max_pool_backward(dims: int) -> Rule:
    """The gradient goes to the largest element of each window."""
    return pool_backward(dims, _MAX_BACKWARD_CYCLES)


def cost_adaptive_pool(site: OpSite, context: CostContext) -> OpCost:
    """Windows that cover the input with a stated number of results."""
    source, result = site.operands[0], site.outputs[0]
    window = ceil_divide(source.elements, max(1, result.elements))
    return _cost_windows(source, result, window, context)


def cost_adaptive_pool_backward(site: OpSite, context: CostContext) -> OpCost:
    """Each element of the input lies in one window."""
    return _cost_windows(site.operands[0], site.outputs[0], 1, context)


def resample(taps: int) -> Rule:
    """Interpolation: each result is a weighted sum of `taps` neighbours; backward as many the other way round."""

    def cost_resample(site: OpSite, context: CostContext) -> OpCost:
        source, result = site.operands[0], site.outputs[0]
        scale = ceil_divide(source.elements, max(1, result.elements))
        cost = _cost_windows(source, result, taps * scale, context)
        return wrap(
            Family.POOLING,
            cost.steps,
            basis="as pooling with as many places as neighbours",
            provenance=Provenance.GUESSED,
            scratch_bytes_per_tile=cost.scratch_bytes_per_tile,
        )

    return cost_resample


def _cost_windows(
    source: Operand, result: Operand, places: int, context: CostContext, vector_cycles: int = _CYCLES
) -> OpCost:
    spread = spread_operand(result, context)
    if not spread.tiles:
        return wrap(Family.POOLING, (), basis=_BASIS)
    target = context.target
    workers = target.workers_per_tile
    # The input of a tile's windows: its share of the whole, or all places where windows overlap.
    share = ceil_divide(source.elements, spread.tiles)
    arriving = min(max(share, spread.elements), spread.elements * places) * source.element_bytes
    rows = ceil_divide(spread.vectors, max(1, result.shape[-1] if result.shape else 1))
    per_worker = ceil_divide(spread.vectors, workers) * places * vector_cycles
    per_worker += ceil_divide(rows, workers) * _ROW_CYCLES
    step = CostStep(
        StepKind.COMPUTE,
        "Pool",
        (20 + workers * (17 + per_worker)) * target.compute_scale,
        spread.tiles,
        flops=result.elements * places,
        vertex=name_vertex("Pool", result.dtype),
    )
    moved = exchange("input windows", arriving, spread.tiles, context, messages=min(8, spread.vectors))
    return wrap(Family.POOLING, (*moved, step), basis=_BASIS, scratch_bytes_per_tile=arriving)
