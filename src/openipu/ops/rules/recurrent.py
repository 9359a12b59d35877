"""Recurrent layers: `openipu::lstm_layer`, `gru_layer` and `rnn_layer`, and their gradients.

In: input [time, batch, features], states [batch, hidden]. Out: for each time step a matmul, its result brought to where
the state lies, and the passes of the cell; the gradients of the weights of all steps in one matmul at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite, Placement
from openipu.ops.kernels import COPY
from openipu.ops.linear import cost_matmul
from openipu.ops.rule import Rule, read_argument, read_operand
from openipu.ops.rules.recurrent_cells import GRU, LSTM, RELU_CELL, TANH_CELL, Cell, Pass
from openipu.ops.rules.reduction import Reduction, reduce_elements
from openipu.ops.steps import Steps, combine, count_held_bytes, pass_over, rearrange, wrap

_BASIS = "phases of popnn's recurrent layers: in each time step one matmul, a rearrangement, the passes of the cell"


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

    @property
    def wide(self) -> int:
        return self.cell.gates * self.hidden


def cost_lstm(site: OpSite, context: CostContext) -> OpCost:
    """`lstm_layer(input, hidden, cell, weight_input, weight_hidden, bias, reverse, training)`."""
    return _cost_forward(_read_layer(site, LSTM, 0), bool(read_argument(site, 7, "training", False)), context)


def cost_gru(site: OpSite, context: CostContext) -> OpCost:
    """`gru_layer(input, hidden, weight_input, weight_hidden, bias_input, bias_hidden, reverse, training)`."""
    return _cost_forward(_read_layer(site, GRU, 0), bool(read_argument(site, 7, "training", False)), context)


def cost_rnn(site: OpSite, context: CostContext) -> OpCost:
    """`rnn_layer(input, hidden, weight_input, weight_hidden, bias, rectify, reverse)`."""
    cell = RELU_CELL if read_argument(site, 5, "rectify", False) else TANH_CELL
    return _cost_forward(_read_layer(site, cell, 0), False, context)


def cost_lstm_backward(site: OpSite, context: CostContext) -> OpCost:
    """`lstm_layer_backward(3 gradients, input, hidden, …, reverse, input_wanted)`."""
    return _cost_backward(site, LSTM, 12, context)


def cost_gru_backward(site: OpSite, context: CostContext) -> OpCost:
    """`gru_layer_backward(2 gradients, input, hidden, …, reverse, input_wanted)`."""
    return _cost_backward(site, GRU, 9, context)


def cost_rnn_backward(site: OpSite, context: CostContext) -> OpCost:
    """`rnn_layer_backward(2 gradients, input, hidden, …, rectify, reverse, input_wanted)`."""
    cell = RELU_CELL if read_argument(site, 7, "rectify", False) else TANH_CELL
    return _cost_backward(site, cell, 9, context)


def _read_layer(site: OpSite, cell: Cell, position: int) -> Layer:
    source, hidden = read_operand(site, position, "input"), read_operand(site, position + 1, "hidden")
    steps, batch, features = source.shape
    return Layer(steps, batch, features, hidden.shape[-1], cell, source.dtype)


def _cost_forward(layer: Layer, training: bool, context: CostContext) -> OpCost:
    cell, whole = layer.cell, []
    if cell.inputs_first:
        whole.append(_multiply(layer, layer.steps * layer.batch, layer.features, layer.wide, context))
        products = [_multiply(layer, layer.batch, layer.hidden, layer.wide, context)]
    elif cell.joined:
        products = [_multiply(layer, layer.batch, layer.features + layer.hidden, layer.wide, context)]
    else:
        inner_sizes = (layer.features, layer.hidden)
        products = [_multiply(layer, layer.batch, inner, layer.wide, context) for inner in inner_sizes]
    taken = layer.wide if cell.inputs_first else layer.features
    kept = layer.hidden * (1 + (cell.saved if training else 0))
    passes = (
        *_copy("take step of input", layer, taken, context),
        *(step for product in products for step in product.steps),
        *rearrange(Operand((layer.batch, len(products) * layer.wide), layer.dtype), context, name="to state"),
        *_run_cell(layer, cell.forward, context),
        *_copy("store step", layer, kept, context),
    )
    waiting = layer.steps * layer.batch * layer.wide if cell.inputs_first else 0
    return _finish(layer, whole, passes, products, [], count_held_bytes(waiting, layer.dtype, context))


def _cost_backward(site: OpSite, cell: Cell, wanted_position: int, context: CostContext) -> OpCost:
    layer = _read_layer(site, cell, cell.gradients)
    input_wanted = bool(read_argument(site, wanted_position, "input_wanted"))
    places = layer.steps * layer.batch
    outside = []
    if input_wanted and cell.joined:
        products = [_multiply(layer, layer.batch, layer.wide, layer.features + layer.hidden, context)]
    else:
        products = [_multiply(layer, layer.batch, layer.wide, layer.hidden, context)]
        if input_wanted and cell.inputs_first:
            outside.append(_multiply(layer, places, layer.wide, layer.features, context))
        elif input_wanted:
            products.append(_multiply(layer, layer.batch, layer.wide, layer.features, context))
    made = layer.hidden + (layer.features if input_wanted and not cell.inputs_first else 0)
    passes = (
        *_copy("take step of saved values", layer, layer.hidden * (1 + max(1, cell.saved)), context),
        *_run_cell(layer, cell.backward, context),
        *(step for product in products for step in product.steps),
        *rearrange(Operand((layer.batch, made), layer.dtype), context, name="to state"),
        *_copy("store step", layer, layer.wide + made - layer.hidden, context),
    )
    outside.append(_multiply(layer, layer.features + layer.hidden, places, layer.wide, context))
    summed = reduce_elements(Reduction((places, layer.wide), (0,), layer.dtype), context, name="bias gradient")
    outside.append(wrap(Family.REDUCTION, summed.steps, basis=_BASIS))
    # The weights are transposed once, before the loop; what the gates get waits for the matmul behind it.
    weights = Operand((made, layer.wide), layer.dtype)
    transposed = wrap(Family.LAYOUT, rearrange(weights, context, name="transpose weights"), basis=_BASIS)
    held = count_held_bytes(weights.elements, layer.dtype, context)
    held += count_held_bytes(places * layer.wide, layer.dtype, context)
    return _finish(layer, [transposed], passes, products, outside, held)


def _finish(
    layer: Layer, before: list[OpCost], passes: Steps, products: list[OpCost], after: list[OpCost], held_bytes: int
) -> OpCost:
    """The loop between what runs once. Scratch memory: the largest product, and what is held all the while."""
    repeated = tuple(replace(step, repeats=step.repeats * layer.steps) for step in passes) if layer.steps else ()
    loop = replace(combine(Family.MATMUL, *products), steps=repeated)
    whole = combine(Family.MATMUL, *before, loop, *after, basis=_BASIS, placement=Placement.LINEAR)
    scratch = whole.scratch_bytes_per_tile + held_bytes
    return replace(whole, scratch_bytes_per_tile=scratch, plan={**whole.plan, "time_steps": layer.steps})


def _multiply(layer: Layer, rows: int, inner: int, columns: int, context: CostContext) -> OpCost:
    return cost_matmul(
        batches=1, rows=rows, inner=inner, columns=columns, half=layer.half, context=context, name="recurrent layer"
    )


def _run_cell(layer: Layer, passes: tuple[Pass, ...], context: CostContext) -> Steps:
    elements = layer.batch * layer.hidden
    return tuple(
        step
        for name, kernel, times in passes
        for step in pass_over(kernel, times * elements, layer.dtype, context, inputs=2, name=name)
    )


def _copy(name: str, layer: Layer, width: int, context: CostContext) -> Steps:
    """A slice of a sequence is on the tiles of the state already: one copy on the tile."""
    return pass_over(COPY, layer.batch * width, layer.dtype, context, name=name)


RECURRENT: dict[str, Rule] = {
    "openipu.lstm_layer": cost_lstm,
    "openipu.lstm_layer_backward": cost_lstm_backward,
    "openipu.gru_layer": cost_gru,
    "openipu.gru_layer_backward": cost_gru_backward,
    "openipu.rnn_layer": cost_rnn,
    "openipu.rnn_layer_backward": cost_rnn_backward,
}
