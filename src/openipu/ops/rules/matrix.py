"""Matmuls and convolutions as ATen calls them, and the gradients of a convolution.

In: a site. Out: the cost that the planner in `linear` finds for its sizes, with biases and bias gradients added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite, Placement
from openipu.ops.kernels import ADD, BROADCAST_ADD, MULTIPLY_TWICE
from openipu.ops.linear import Convolution, cost_convolution, cost_matmul, input_gradient, weight_gradient
from openipu.ops.rule import ceil_divide, read_argument, read_dims, read_numbers, read_operand
from openipu.ops.rules.reduction import Reduction, reduce_elements
from openipu.ops.spread import spread_operand
from openipu.ops.steps import combine, exchange, pass_over, wrap


def cost_product(site: OpSite, context: CostContext) -> OpCost:
    """`mm`, `bmm`, `mv`, `dot`, `matmul`: the last two tensors of the call, with vectors as matrices of one row."""
    left, right = site.operands[-2:]
    return _cost_pair(left, right, site, context)


def cost_product_and_sum(site: OpSite, context: CostContext) -> OpCost:
    """`addmm`, `addmv`, `baddbmm`, `addbmm`: a product, and something added to it unless `beta` is zero."""
    added, left, right = site.operands[:3]
    cost = _number_operands(_cost_pair(left, right, site, context), 1, 2)
    return cost if site.kwargs.get("beta", 1) == 0 else _add_bias(cost, added, site.outputs[0], context)


def cost_linear(site: OpSite, context: CostContext) -> OpCost:
    """`linear(input, weight, bias)`."""
    left, weight = read_operand(site, 0, "input"), read_operand(site, 1, "weight")
    columns = weight.shape[0] if len(weight.shape) > 1 else 1
    rows = left.elements // max(1, left.shape[-1])
    cost = cost_matmul(
        batches=1,
        rows=rows,
        inner=left.shape[-1],
        columns=columns,
        half=left.is_half or left.is_float8,
        float8=left.is_float8,
        context=context,
        name=site.op,
    )
    bias = read_argument(site, 2, "bias")
    return _add_bias(cost, bias, site.outputs[0], context) if isinstance(bias, Operand) else cost


def cost_trilinear(site: OpSite, context: CostContext) -> OpCost:
    """`_trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim)`: three tensors multiplied and summed."""
    expanded = []
    for position, operand in enumerate(site.operands[:3]):
        shape = list(operand.shape)
        for dim in sorted(site.args[3 + position]):
            shape.insert(dim, 1)
        expanded.append(shape)
    whole = tuple(max(sizes) for sizes in zip(*expanded, strict=True))
    dtype = site.outputs[0].dtype
    summed = reduce_elements(Reduction(whole, read_dims(site.args[6], len(whole)), dtype), context, name="sum")
    steps = pass_over(MULTIPLY_TWICE, math.prod(whole), dtype, context, inputs=2, name="product of three")
    return wrap(
        Family.MATMUL,
        steps + summed.steps,
        basis="popops multiply, then its reduction",
        scratch_bytes_per_tile=summed.scratch_bytes_per_tile,
    )


def cost_convolution_op(site: OpSite, context: CostContext) -> OpCost:
    """`convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)`."""
    source, weight = read_operand(site, 0, "input"), read_operand(site, 1, "weight")
    result = site.outputs[0]
    problem = describe_convolution(site, source, weight, result, first=3)
    cost = cost_convolution(problem, context, name=site.op)
    bias = read_argument(site, 2, "bias")
    return _add_bias(cost, bias, result, context) if isinstance(bias, Operand) else cost


def cost_convolution_backward(site: OpSite, context: CostContext) -> OpCost:
    """Up to three results, by `output_mask`: a convolution for the input, one for the weights, a sum for the bias."""
    gradient = read_operand(site, 0, "grad_output")
    source, weight = read_operand(site, 1, "input"), read_operand(site, 2, "weight")
    mask = read_argument(site, 10, "output_mask", (True, True, True))
    forward = describe_convolution(site, source, weight, gradient, first=4)
    parts: dict[str, OpCost] = {}
    if mask[0]:
        height, width = _fold_image(source.shape[2:])
        folded = input_gradient(forward, in_height=height, in_width=width)
        parts["input_gradient"] = _number_operands(cost_convolution(folded, context, name=site.op), 0, 2)
    if mask[1]:
        found = cost_convolution(weight_gradient(forward), context, name=site.op)
        parts["weight_gradient"] = _number_operands(found, 1, 0)
    if mask[2]:
        others = tuple(dim for dim in range(len(gradient.shape)) if dim != 1)
        summed = reduce_elements(Reduction(gradient.shape, others, gradient.dtype), context, name="bias gradient")
        parts["bias_gradient"] = wrap(
            Family.REDUCTION,
            summed.steps,
            basis="bias gradient: popops reduction",
            scratch_bytes_per_tile=summed.scratch_bytes_per_tile,
        )
    if not parts:
        return wrap(Family.CONVOLUTION, (), basis="no gradient is wanted", provenance=Provenance.DERIVED)
    labelled = [
        replace(cost, steps=tuple(replace(step, name=f"{label.replace('_', ' ')}: {step.name}") for step in cost.steps))
        for label, cost in parts.items()
    ]
    planned = any(cost.placement is Placement.PLANNED for cost in labelled)
    cost = combine(Family.CONVOLUTION, *labelled, placement=Placement.PLANNED if planned else Placement.LINEAR)
    return replace(cost, plan={label: dict(part.plan) for label, part in parts.items() if part.plan})


def describe_convolution(site: OpSite, source: Operand, weight: Operand, result: Operand, *, first: int) -> Convolution:
    """The convolution of a call whose `stride` is argument `first`.

    One dimension becomes a height of one. Three: places along the depth join the batch, depth taps join the channels.
    """
    dims = len(weight.shape) - 2
    stride = read_numbers(read_argument(site, first, "stride"), dims)
    dilation = read_numbers(read_argument(site, first + 2, "dilation"), dims)
    transposed = bool(read_argument(site, first + 3, "transposed", False))
    groups = int(read_argument(site, first + 5, "groups", 1))
    kernel = weight.shape[2:]
    if transposed:
        in_channels, out_channels = weight.shape[0] // groups, weight.shape[1]
    else:
        in_channels, out_channels = weight.shape[1], weight.shape[0] // groups
    batch = result.shape[0] if len(result.shape) == dims + 2 else 1
    image = result.shape[-dims:]
    for axis in range(dims - 2):
        batch *= image[axis]
        in_channels *= ceil_divide(kernel[axis], stride[axis]) if transposed else kernel[axis]
    height, width = _fold_image(image)
    (kernel_height, kernel_width), (stride_height, stride_width) = _fold_image(kernel), _fold_image(stride)
    dilation_height, dilation_width = _fold_image(dilation)
    return Convolution(
        groups=groups,
        batch=batch,
        out_height=height,
        out_width=width,
        kernel_height=kernel_height,
        kernel_width=kernel_width,
        in_channels=in_channels,
        out_channels=out_channels,
        stride_height=1 if transposed else stride_height,
        stride_width=1 if transposed else stride_width,
        dilation_height=dilation_height,
        dilation_width=dilation_width,
        input_dilation_height=stride_height if transposed else 1,
        input_dilation_width=stride_width if transposed else 1,
        half=source.is_half or source.is_float8,
        float8=source.is_float8,
    )


def _fold_image(sizes: Sequence[int]) -> tuple[int, int]:
    """The last two of any number of sizes."""
    padded = (1, 1, *sizes)
    return padded[-2], padded[-1]


def _cost_pair(left: Operand, right: Operand, site: OpSite, context: CostContext) -> OpCost:
    rows = left.shape[-2] if len(left.shape) > 1 else 1
    columns = right.shape[-1] if len(right.shape) > 1 else 1
    inner = left.shape[-1] if left.shape else 1
    left_batches, right_batches = math.prod(left.shape[:-2]), math.prod(right.shape[:-2])
    batches = max(left_batches, right_batches)
    if right_batches == 1 and left_batches > 1:  # one matrix for all: the batch is more rows
        rows, batches = rows * left_batches, 1
    return cost_matmul(
        batches=batches,
        rows=rows,
        inner=inner,
        columns=columns,
        half=not any(operand.element_bytes > 2 for operand in (left, right)),
        float8=left.is_float8 and right.is_float8,
        context=context,
        name=site.op,
    )


def _number_operands(cost: OpCost, left: int, right: int) -> OpCost:
    """Say which operands of the call the left and the right one of the product are."""
    numbers = (left, right)
    return replace(cost, laid_out=tuple(entry._replace(operand=numbers[entry.operand]) for entry in cost.laid_out))


def _add_bias(cost: OpCost, bias: Any, result: Operand, context: CostContext) -> OpCost:
    """The result stays where the product left it; the bias is brought there and added on the spot."""
    assert isinstance(bias, Operand)
    spread = spread_operand(result, context)
    if not spread.tiles:
        return cost
    kernel = ADD if bias.shape == result.shape else BROADCAST_ADD
    arriving = min(bias.elements, spread.elements) * bias.element_bytes
    steps = exchange("bias", arriving, spread.tiles, context)
    steps += pass_over(kernel, result.elements, result.dtype, context, inputs=2, name="add bias")
    return replace(cost, steps=cost.steps + steps)
