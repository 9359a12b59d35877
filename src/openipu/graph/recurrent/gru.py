"""What `openipu::gru_layer` and its gradient compute, in plain PyTorch.

In: values; weights in PyTorch's order: reset, update, new. Out: values. `gates` is [time, batch, 4 x hidden]: new,
reset, update, and the part of "new" that the state makes before it is reset. In that order the differences of the first
three belong to the inputs, those of the last three to the state, and both are whole matrices for one product.
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

GATES = 3
SAVED = 4


@torch.no_grad()
def run_gru(
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias_input: torch.Tensor | None,
    bias_hidden: torch.Tensor | None,
    reverse: bool,
    training: bool,
) -> Tensors:
    """Output of all steps, last state, gates of all steps."""
    dtype = source.dtype
    source, hidden, weight_input, weight_hidden = widen(source, hidden, weight_input, weight_hidden)
    bias_hidden = widen_given(bias_hidden)
    time, batch, width = *source.shape[:2], hidden.shape[-1]
    from_inputs = multiply_inputs(source, weight_input, widen_given(bias_input))
    two_inputs, third_input = from_inputs[..., : 2 * width].unbind(), from_inputs[..., 2 * width :].unbind()
    gates = from_inputs.new_empty((time if training else 1, batch, SAVED * width))
    output = from_inputs.new_empty((time, batch, width))
    times = 1 if training else time  # nothing is read again: one memory for all steps
    new, reset, update, stated = (part.unbind() * times for part in gates.chunk(SAVED, 2))
    of_state, reset_and_update = gates[..., width:].unbind() * times, gates[..., width : 3 * width].unbind() * times
    outputs, transposed = output.unbind(), weight_hidden.t()
    for step in list_steps(time, reverse):
        if bias_hidden is None:
            torch.mm(hidden, transposed, out=of_state[step])
        else:
            torch.addmm(bias_hidden, hidden, transposed, out=of_state[step])
        reset_and_update[step].add_(two_inputs[step]).sigmoid_()
        torch.addcmul(third_input[step], reset[step], stated[step], out=new[step]).tanh_()
        hidden = torch.lerp(new[step], hidden, update[step], out=outputs[step])
    saved = gates if training else gates.new_empty(0)
    return round_results(dtype, output, hidden.clone(), saved)


@torch.no_grad()
def differentiate_gru(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    gates: torch.Tensor,
    reverse: bool,
    input_wanted: bool,
) -> Tensors:
    """Gradients of input, first state, weights of the inputs, weights of the state, both biases."""
    dtype = source.dtype
    source, hidden, weight_input, weight_hidden = widen(source, hidden, weight_input, weight_hidden)
    output, gates = widen(output, gates)
    time, batch, width = output.shape
    new, reset, update, stated = gates.chunk(SAVED, 2)
    # What each gate would get for a gradient of one; the loop multiplies by the gradient that arrives.
    differences = torch.empty_like(gates)
    of_new, of_reset, of_update, of_stated = differences.chunk(SAVED, 2)
    aten.tanh_backward.grad_input(1 - update, new, grad_input=of_new)
    aten.sigmoid_backward.grad_input(of_new * stated, reset, grad_input=of_reset)
    aten.sigmoid_backward.grad_input(shift(output, hidden, reverse) - new, update, grad_input=of_update)
    torch.mul(of_new, reset, out=of_stated)
    upstream, grad_hidden = start_gradient(grad_output, grad_last_hidden, output, reverse)
    incoming, updates = upstream.unbind(), update.unbind()
    by_gate, of_state = differences.view(time, batch, SAVED, width).unbind(), differences[..., width:].unbind()
    order = list_steps(time, not reverse)
    for step, following in zip(order, (*order[1:], None), strict=True):
        by_gate[step].mul_(grad_hidden.unsqueeze(1))
        if following is None:
            grad_hidden = torch.mul(grad_hidden, updates[step])
        else:
            grad_hidden = torch.addcmul(incoming[following], grad_hidden, updates[step])
        grad_hidden.addmm_(of_state[step], weight_hidden)
    of_inputs = differences[..., : 3 * width]
    return round_results(
        dtype,
        sum_input_gradient(of_inputs, weight_input.roll(width, 0), input_wanted),
        grad_hidden,
        sum_input_weight_gradient(of_inputs, source).roll(-width, 0),
        sum_hidden_weight_gradient(differences[..., width:], output, hidden, reverse),
        of_inputs.sum((0, 1)).roll(-width, 0),
        differences[..., width:].sum((0, 1)),
    )
