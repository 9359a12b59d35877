"""What `openipu::rnn_layer` and its gradient compute, in plain PyTorch: one gate, tanh or ReLU.

In: values. Out: values. Backward needs nothing but the output.
"""

from __future__ import annotations

import torch

from openipu.graph.recurrent.steps import (
    Tensors,
    list_steps,
    multiply_inputs,
    round_results,
    start_gradient,
    sum_hidden_weight_gradient,
    sum_input_gradient,
    sum_input_weight_gradient,
    widen,
    widen_given,
)


@torch.no_grad()
def run_rnn(
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    rectify: bool,
    reverse: bool,
) -> Tensors:
    """Output of all steps, last state."""
    dtype = source.dtype
    source, hidden, weight_input, weight_hidden = widen(source, hidden, weight_input, weight_hidden)
    output = multiply_inputs(source, weight_input, widen_given(bias))
    outputs, transposed = output.unbind(), weight_hidden.t()
    for step in list_steps(source.shape[0], reverse):
        state = outputs[step].addmm_(hidden, transposed)
        hidden = state.relu_() if rectify else state.tanh_()
    return round_results(dtype, output, hidden.clone())


@torch.no_grad()
def differentiate_rnn(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    rectify: bool,
    reverse: bool,
    input_wanted: bool,
) -> Tensors:
    """Gradients of input, first state, weights of the inputs, weights of the state, bias."""
    dtype = source.dtype
    source, hidden, weight_input, weight_hidden, output = widen(source, hidden, weight_input, weight_hidden, output)
    one = output.new_ones(())
    differences = (output > 0).to(torch.float32) if rectify else torch.addcmul(one, output, output, value=-1)
    upstream, grad_hidden = start_gradient(grad_output, grad_last_hidden, output, reverse)
    incoming, by_step = upstream.unbind(), differences.unbind()
    order = list_steps(source.shape[0], not reverse)
    for step, following in zip(order, (*order[1:], None), strict=True):
        by_step[step].mul_(grad_hidden)
        if following is None:
            grad_hidden = torch.mm(by_step[step], weight_hidden)
        else:
            grad_hidden = torch.addmm(incoming[following], by_step[step], weight_hidden)
    return round_results(
        dtype,
        sum_input_gradient(differences, weight_input, input_wanted),
        grad_hidden,
        sum_input_weight_gradient(differences, source),
        sum_hidden_weight_gradient(differences, output, hidden, reverse),
        differences.sum((0, 1)),
    )
