"""Recurrent layers that reach the graph as one op: `mkldnn_rnn_layer` and its gradient.

In: input [time, batch, features], hidden size, mode. Out: one large matmul for all inputs, then for each time step a
small matmul and the gates; backward the same the other way round, and the gradients of the weights at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from openipu.ops.cost import CostContext, Family, OpCost, OpSite
from openipu.ops.kernels import (
    ADD,
    MULTIPLY,
    RELU,
    RELU_GRADIENT,
    SIGMOID,
    SIGMOID_GRADIENT,
    TANH,
    TANH_GRADIENT,
    Kernel,
    fuse,
)
from openipu.ops.linear import cost_matmul
from openipu.ops.reduction import Reduction, reduce_elements
from openipu.ops.rule import read_argument, read_operand
from openipu.ops.steps import combine, pass_over, wrap


@dataclass(frozen=True, slots=True)
class Cell:
    """What one time step does besides its matmul, for each element of the hidden state."""

    gates: int
    forward: Kernel
    backward: Kernel


# By PyTorch's mode number. Sums of the gates' parts, as popnn's fused cell vertices do them.
_CELLS: Mapping[int, Cell] = {
    0: Cell(1, fuse("ReluCell", ADD, RELU), fuse("ReluCellGradient", ADD, RELU_GRADIENT)),
    1: Cell(1, fuse("TanhCell", ADD, TANH), fuse("TanhCellGradient", ADD, TANH_GRADIENT)),
    2: Cell(
        4,
        fuse("LstmCell", *(ADD,) * 4, *(SIGMOID,) * 3, *(TANH,) * 2, *(MULTIPLY,) * 3, ADD),
        fuse("LstmCellGradient", *(SIGMOID_GRADIENT,) * 3, *(TANH_GRADIENT,) * 2, *(MULTIPLY,) * 5, ADD, ADD),
    ),
    3: Cell(
        3,
        fuse("GruCell", *(ADD,) * 3, *(SIGMOID,) * 2, TANH, *(MULTIPLY,) * 3, *(ADD,) * 2),
        fuse("GruCellGradient", *(SIGMOID_GRADIENT,) * 2, TANH_GRADIENT, *(MULTIPLY,) * 5, *(ADD,) * 3),
    ),
}
_BASIS = "popnn recurrent layers: all inputs in one matmul, then a matmul and the gates in each time step"


@dataclass(frozen=True, slots=True)
class Layer:
    """Sizes of one layer."""

    steps: int
    batch: int
    features: int
    hidden: int
    cell: Cell
    dtype: torch.dtype

    @property
    def half(self) -> bool:
        return self.dtype is torch.float16


def cost_recurrent(site: OpSite, context: CostContext) -> OpCost:
    """`mkldnn_rnn_layer(input, w0..w3, hx, cx, reverse, batch_sizes, mode, hidden_size, …)`."""
    layer = _read_layer(site, mode=9, hidden=10, batch_first=14)
    wide = layer.cell.gates * layer.hidden
    whole = _multiply(layer, layer.steps * layer.batch, layer.features, wide, context)
    step = _multiply(layer, layer.batch, layer.hidden, wide, context)
    gates = _run_gates(layer, layer.cell.forward, context)
    return combine(Family.MATMUL, whole, _repeat(step, layer.steps), _repeat(gates, layer.steps), basis=_BASIS)


def cost_recurrent_backward(site: OpSite, context: CostContext) -> OpCost:
    """`mkldnn_rnn_layer_backward(input, w0..w3, hx, cx, output, hy, cy, grads…, reverse, mode, hidden_size, …)`."""
    layer = _read_layer(site, mode=14, hidden=15, batch_first=21)
    wide, places = layer.cell.gates * layer.hidden, layer.steps * layer.batch
    gates = _run_gates(layer, layer.cell.backward, context)
    step = _multiply(layer, layer.batch, wide, layer.hidden, context)
    of_inputs = _multiply(layer, places, wide, layer.features, context)
    of_weights = _multiply(layer, wide, places, layer.features, context)
    of_hidden_weights = _multiply(layer, wide, places, layer.hidden, context)
    summed = reduce_elements(Reduction((places, wide), (0,), layer.dtype), context, name="bias gradient")
    of_bias = wrap(Family.REDUCTION, summed.steps, basis=_BASIS)
    return combine(
        Family.MATMUL,
        _repeat(gates, layer.steps),
        _repeat(step, layer.steps),
        of_bias,
        of_inputs,
        of_weights,
        of_hidden_weights,
        basis=_BASIS,
    )


def _read_layer(site: OpSite, *, mode: int, hidden: int, batch_first: int) -> Layer:
    source = read_operand(site, 0, "input")
    steps, batch = source.shape[:2]
    if read_argument(site, batch_first, "batch_first", False):
        steps, batch = batch, steps
    cell = _CELLS[int(read_argument(site, mode, "mode"))]
    size = int(read_argument(site, hidden, "hidden_size"))
    return Layer(steps, batch, source.shape[-1], size, cell, source.dtype)


def _multiply(layer: Layer, rows: int, inner: int, columns: int, context: CostContext) -> OpCost:
    return cost_matmul(
        batches=1, rows=rows, inner=inner, columns=columns, half=layer.half, context=context, name="recurrent layer"
    )


def _run_gates(layer: Layer, kernel: Kernel, context: CostContext) -> OpCost:
    passes = pass_over(kernel, layer.batch * layer.hidden, layer.dtype, context, inputs=2)
    return wrap(Family.ELEMENTWISE, passes, basis=_BASIS)


def _repeat(cost: OpCost, times: int) -> OpCost:
    steps = tuple(replace(step, repeats=step.repeats * times) for step in cost.steps) if times else ()
    return replace(cost, steps=steps)
