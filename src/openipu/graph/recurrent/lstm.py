"""What `openipu::lstm_layer` and its gradient compute, in plain PyTorch.

In: values. Out: values; gates are [time, batch, 4 x hidden] in PyTorch's order: input, forget, cell, output.
The inputs of all time steps go through one product. What remains for each step is a small product and a few
operations in memory that is already there. Backward does all that needs no recurrence for all steps at once.
"""

from __future__ import annotations

import torch

from openipu.graph.recurrent.steps import (
    Tensors,
    list_steps,
    multiply_inputs,
    round_results,
    shift,
    start_gradient,
    sum_hidden_weight_gradient,
    sum_input_gradient,
    sum_input_weight_gradient,
    widen,
    widen_given,
)

aten = torch.ops.aten

GATES = 4


@torch.no_grad()
def run_lstm(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
    training: bool,
) -> Tensors:
    """Output of all steps, last state, last cell, gates and cells of all steps."""
    dtype = source.dtype
    source, hidden, cell, weight_input, weight_hidden = widen(source, hidden, cell, weight_input, weight_hidden)
    time, width = source.shape[0], hidden.shape[-1]
    gates = multiply_inputs(source, weight_input, widen_given(bias))
    output = gates.new_empty((*gates.shape[:2], width))
    cells = torch.empty_like(output) if training else output.new_empty((1, *cell.shape))
    transposed = weight_hidden.t()
    all_gates, outputs = gates.unbind(), output.unbind()
    first_two, first, second, third, fourth = (
        part.unbind() for part in (gates[..., : 2 * width], *gates.chunk(GATES, 2))
    )
    kept = cells.unbind() if training else cells.unbind() * time  # nothing is read again: one memory for all steps
    for step in list_steps(time, reverse):
        all_gates[step].addmm_(hidden, transposed)
        first_two[step].sigmoid_()
        third[step].tanh_()
        fourth[step].sigmoid_()
        cell = torch.mul(second[step], cell, out=kept[step]).addcmul_(first[step], third[step])
        hidden = torch.tanh(cell, out=outputs[step]).mul_(fourth[step])
    saved = (gates, cells) if training else (gates.new_empty(0), gates.new_empty(0))
    # Each result has memory of its own: the last state is also part of the output.
    return round_results(dtype, output, hidden.clone(), cell.clone(), *saved)


@torch.no_grad()
def differentiate_lstm(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    grad_last_cell: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    gates: torch.Tensor,
    cells: torch.Tensor,
    reverse: bool,
    input_wanted: bool,
) -> Tensors:
    """Gradients of input, first state, first cell, weights of the inputs, weights of the state, bias."""
    dtype = source.dtype
    source, hidden, cell, weight_input, weight_hidden = widen(source, hidden, cell, weight_input, weight_hidden)
    output, gates, cells = widen(output, gates, cells)
    time, batch, width = output.shape
    admit, forget, update, emit = gates.chunk(GATES, 2)
    bent = torch.tanh(cells)
    # What each gate would get for a gradient of one; the loop multiplies by the gradient that arrives.
    differences = torch.empty_like(gates)
    of_admit, of_forget, of_update, of_emit = differences.chunk(GATES, 2)
    aten.sigmoid_backward.grad_input(update, admit, grad_input=of_admit)
    aten.sigmoid_backward.grad_input(shift(cells, cell, reverse), forget, grad_input=of_forget)
    aten.tanh_backward.grad_input(admit, update, grad_input=of_update)
    aten.sigmoid_backward.grad_input(bent, emit, grad_input=of_emit)
    into_cell = aten.tanh_backward(emit, bent).unbind()
    upstream, grad_hidden = start_gradient(grad_output, grad_last_hidden, output, reverse)
    incoming = upstream.unbind()
    grad_cell = output.new_zeros(batch, 1, width)
    if grad_last_cell is not None:
        grad_cell.copy_(grad_last_cell.unsqueeze(1))
    flat_cell = grad_cell.view(batch, width)
    all_differences, emitted, forgotten = differences.unbind(), of_emit.unbind(), forget.unbind()
    of_cell = differences[..., : 3 * width].view(time, batch, 3, width).unbind()
    order = list_steps(time, not reverse)
    for step, following in zip(order, (*order[1:], None), strict=True):
        flat_cell.addcmul_(grad_hidden, into_cell[step])
        emitted[step].mul_(grad_hidden)
        of_cell[step].mul_(grad_cell)
        flat_cell.mul_(forgotten[step])
        if following is None:
            grad_hidden = torch.mm(all_differences[step], weight_hidden)
        else:
            grad_hidden = torch.addmm(incoming[following], all_differences[step], weight_hidden)
    return round_results(
        dtype,
        sum_input_gradient(differences, weight_input, input_wanted),
        grad_hidden,
        flat_cell,
        sum_input_weight_gradient(differences, source),
        sum_hidden_weight_gradient(differences, output, hidden, reverse),
        differences.sum((0, 1)),
    )
