"""Batch, layer, group and RMS normalisation, forward and backward.

In: an operand, the dimensions that share statistics, whether there is a scale and a shift. Out: the compute sets of
Poplibs' norms: mean and squares in one multi-reduction, one over the deviation, whiten (subtract, multiply), scale and
shift (multiply, add). Backward adds two reductions for scale and shift and one gradient of the statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite
from openipu.ops.kernels import (
    BROADCAST_ADD,
    BROADCAST_MULTIPLY,
    BROADCAST_SCALE_ADD,
    LERP,
    MULTIPLY,
    RSQRT,
    SCALED_ADD,
)
from openipu.ops.rule import read_argument, read_operand
from openipu.ops.rules.reduction import Reduction, broadcast_results, reduce_elements
from openipu.ops.spread import spread_linearly
from openipu.ops.steps import Steps, count_held_bytes, exchange, pass_over, wrap

_BASIS = "Poplibs norms: multi-reduction, 1/deviation, whiten, scale and shift"
_BACKWARD_BASIS = "Poplibs norm gradients: whiten, two reductions for scale and shift, one gradient of the statistics"


@dataclass(frozen=True, slots=True)
class Norm:
    """A normalisation, whatever its name: which dimensions share a mean, and which share a scale."""

    shape: tuple[int, ...]
    statistics_dims: tuple[int, ...]  # a mean and a deviation are over these
    parameter_dims: tuple[int, ...]  # a gradient of scale and shift is a sum over these
    dtype: torch.dtype
    scales: bool
    shifts: bool
    centres: bool = True  # RMS normalisation subtracts no mean

    @property
    def statistics(self) -> Reduction:
        return Reduction(self.shape, self.statistics_dims, self.dtype, sums=2 if self.centres else 1)

    @property
    def parameters(self) -> Reduction:
        sums = self.scales + self.shifts
        return Reduction(self.shape, self.parameter_dims, self.dtype, sums=max(1, sums))


def describe_layer_norm(site: OpSite, first: int = 0) -> Norm:
    """`native_layer_norm(input, normalized_shape, weight, bias, eps)`; `first` is where the input stands."""
    operand = read_operand(site, first, "input")
    inner = len(read_argument(site, first + 1, "normalized_shape"))
    split = len(operand.shape) - inner
    scale, shift = (2, 3) if first == 0 else (5, 6)
    return Norm(
        operand.shape,
        tuple(range(split, len(operand.shape))),
        tuple(range(split)),
        operand.dtype,
        scales=read_argument(site, scale, "weight") is not None,
        shifts=read_argument(site, shift, "bias") is not None,
    )


def describe_rms_norm(site: OpSite, first: int = 0) -> Norm:
    """`_fused_rms_norm(input, normalized_shape, weight, eps)`."""
    operand = read_operand(site, first, "input")
    split = len(operand.shape) - len(read_argument(site, first + 1, "normalized_shape"))
    scale = read_argument(site, 2 if first == 0 else 4, "weight")
    dims = tuple(range(split, len(operand.shape)))
    rows = tuple(range(split))
    return Norm(operand.shape, dims, rows, operand.dtype, scale is not None, shifts=False, centres=False)


def describe_group_norm(site: OpSite, first: int = 0) -> Norm:
    """`native_group_norm(input, weight, bias, N, C, HxW, group, eps)`: seen as [N, groups, channels, points]."""
    operand = read_operand(site, first, "input")
    sizes = 3 if first == 0 else 5
    batch = int(read_argument(site, sizes, "N"))
    channels = int(read_argument(site, sizes + 1, "C"))
    points = int(read_argument(site, sizes + 2, "HxW"))
    groups = int(read_argument(site, sizes + 3, "group"))
    scales = read_argument(site, 1 if first == 0 else 4, "weight") is not None
    shape = (batch, groups, channels // groups, points)
    return Norm(shape, (2, 3), (0, 3), operand.dtype, scales, shifts=scales)


def describe_batch_norm(site: OpSite, first: int = 0) -> Norm:
    """`native_batch_norm(input, weight, bias, …)`: statistics of each channel."""
    operand = read_operand(site, first, "input")
    others = tuple(dim for dim in range(len(operand.shape)) if dim != 1)
    scales = read_argument(site, first + 1, "weight") is not None
    return Norm(operand.shape, others, others, operand.dtype, scales, shifts=scales)


def cost_norm_forward(norm: Norm, context: CostContext, *, knows_statistics: bool = False) -> OpCost:
    """Statistics (unless they are known), then four passes, or two where whitening and scaling can be one."""
    elements = Operand(norm.shape, norm.dtype).elements
    steps: Steps = ()
    scratch = 0
    if knows_statistics:
        steps += pass_over(RSQRT, norm.statistics.results, norm.dtype, context, name="scale and shift of each channel")
        steps += _broadcast_parameters(norm, norm.statistics, context)
        steps += pass_over(BROADCAST_SCALE_ADD, elements, norm.dtype, context)
        return wrap(Family.NORM, steps, basis="one multiply and one add with known statistics")
    reduced = reduce_elements(norm.statistics, context, name="mean and squares", spreads_results=False)
    scratch = reduced.scratch_bytes_per_tile
    steps += reduced.steps
    steps += pass_over(RSQRT, norm.statistics.results, torch.float32, context, name="1/deviation")
    steps += broadcast_results(norm.statistics, reduced, context, name="broadcast statistics")
    if norm.centres:
        steps += pass_over(BROADCAST_ADD, elements, norm.dtype, context, inputs=2, name="whiten: subtract")
    steps += pass_over(BROADCAST_MULTIPLY, elements, norm.dtype, context, inputs=2, name="whiten: multiply")
    steps += _scale_and_shift(norm, elements, context)
    return wrap(Family.NORM, steps, basis=_BASIS, scratch_bytes_per_tile=scratch)


def cost_norm_backward(norm: Norm, context: CostContext, mask: tuple[bool, ...], *, training: bool = True) -> OpCost:
    """Gradients of the input, the scale and the shift, as far as `mask` wants them."""
    wants_input, wants_scale, wants_shift = (*mask, False, False)[:3]
    elements, dtype = Operand(norm.shape, norm.dtype).elements, norm.dtype
    statistics = norm.statistics
    parameters = replace(norm.parameters, sums=max(1, wants_scale + wants_shift))
    reduced = reduce_elements(statistics, context, name="gradient of statistics", spreads_results=False)
    scratch = reduced.scratch_bytes_per_tile
    steps: Steps = ()
    if wants_scale or (wants_input and training):
        scratch += 2 * count_held_bytes(elements, dtype, context)  # the whitened operand and a product with it
        steps += broadcast_results(statistics, reduced, context, name="broadcast statistics")
        if norm.centres:
            steps += pass_over(BROADCAST_ADD, elements, dtype, context, inputs=2, name="whiten: subtract")
        steps += pass_over(BROADCAST_MULTIPLY, elements, dtype, context, inputs=2, name="whiten: multiply")
    if wants_scale or wants_shift:
        if wants_scale:
            steps += pass_over(MULTIPLY, elements, dtype, context, inputs=2, name="gradient x whitened")
        summed = reduce_elements(parameters, context, name="gradient of scale and shift")
        scratch += summed.scratch_bytes_per_tile
        steps += summed.steps
    if wants_input:
        if norm.scales:
            steps += _broadcast_parameters(norm, parameters, context)
            steps += pass_over(BROADCAST_MULTIPLY, elements, dtype, context, inputs=2, name="gradient x scale")
        if training:
            steps += pass_over(MULTIPLY, elements, dtype, context, inputs=2, name="scaled gradient x whitened")
            steps += reduced.steps
            steps += broadcast_results(statistics, reduced, context, name="broadcast gradient of statistics")
            steps += pass_over(SCALED_ADD, elements, dtype, context, inputs=2, name="subtract along whitened")
            if norm.centres:
                steps += pass_over(BROADCAST_ADD, elements, dtype, context, inputs=2, name="subtract mean")
        steps += pass_over(BROADCAST_MULTIPLY, elements, dtype, context, inputs=2, name="x 1/deviation")
    return wrap(Family.NORM, steps, basis=_BACKWARD_BASIS, scratch_bytes_per_tile=scratch)


def cost_layer_norm(site: OpSite, context: CostContext) -> OpCost:
    return cost_norm_forward(describe_layer_norm(site), context)


def cost_rms_norm(site: OpSite, context: CostContext) -> OpCost:
    return cost_norm_forward(describe_rms_norm(site), context)


def cost_group_norm(site: OpSite, context: CostContext) -> OpCost:
    return cost_norm_forward(describe_group_norm(site), context)


def cost_batch_norm(site: OpSite, context: CostContext) -> OpCost:
    """Training: statistics of the batch, and the running ones moved along. Inference: the running ones are used."""
    norm = describe_batch_norm(site)
    has_running = isinstance(read_argument(site, 3, "running_mean"), Operand)
    position = 3 if site.op.endswith(".no_stats") else 5
    training = "no_training" not in site.op and bool(read_argument(site, position, "training", True))
    cost = cost_norm_forward(norm, context, knows_statistics=not training and has_running)
    if not training or not has_running:
        return cost
    update = pass_over(LERP, 2 * norm.statistics.results, torch.float32, context, inputs=2, name="running statistics")
    steps = cost.steps + update
    return wrap(Family.NORM, steps, basis=cost.basis, scratch_bytes_per_tile=cost.scratch_bytes_per_tile)


def cost_layer_norm_backward(site: OpSite, context: CostContext) -> OpCost:
    return cost_norm_backward(describe_layer_norm(site, 1), context, _read_mask(site, 7))


def cost_rms_norm_backward(site: OpSite, context: CostContext) -> OpCost:
    return cost_norm_backward(describe_rms_norm(site, 1), context, _read_mask(site, 5))


def cost_group_norm_backward(site: OpSite, context: CostContext) -> OpCost:
    return cost_norm_backward(describe_group_norm(site, 1), context, _read_mask(site, 9))


def cost_batch_norm_backward(site: OpSite, context: CostContext) -> OpCost:
    """In inference mode the statistics are constants, so no gradient flows through them."""
    training = bool(read_argument(site, 7, "train", True))
    return cost_norm_backward(describe_batch_norm(site, 1), context, _read_mask(site, 9), training=training)


def _read_mask(site: OpSite, position: int) -> tuple[bool, ...]:
    mask = read_argument(site, position, "output_mask", (True, True, True))
    return tuple(bool(wanted) for wanted in mask)


def _scale_and_shift(norm: Norm, elements: int, context: CostContext) -> Steps:
    steps: Steps = ()
    if norm.scales or norm.shifts:
        steps += _broadcast_parameters(norm, norm.parameters, context)
    if norm.scales:
        steps += pass_over(BROADCAST_MULTIPLY, elements, norm.dtype, context, inputs=2, name="scale")
    if norm.shifts:
        steps += pass_over(BROADCAST_ADD, elements, norm.dtype, context, inputs=2, name="shift")
    return steps


def _broadcast_parameters(norm: Norm, parameters: Reduction, context: CostContext) -> Steps:
    """Each tile needs the scales and shifts of its own elements."""
    spread = spread_linearly(parameters.elements, parameters.element_bytes, context)
    if spread.tiles <= 1:
        return ()
    needed = min(parameters.results, spread.elements)
    kinds = max(1, norm.scales + norm.shifts)
    return exchange("broadcast scale and shift", needed * kinds * parameters.element_bytes, spread.tiles, context)
