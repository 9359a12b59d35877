"""What the kernels of all recurrent layers share.

In: sequences [time, batch, features]. Out: products over all time steps at once, and the order of the steps. The
recurrence itself is computed in float32, whatever the format of the operands, as an IPU accumulates.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Tensors = tuple[torch.Tensor, ...]


def widen(*tensors: torch.Tensor) -> Tensors:
    """The tensors in float32."""
    return tuple(tensor if tensor.dtype is torch.float32 else tensor.to(torch.float32) for tensor in tensors)


def widen_given(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The tensor in float32, if there is one."""
    return None if tensor is None else tensor.to(torch.float32)


def round_results(dtype: torch.dtype, *tensors: torch.Tensor) -> Tensors:
    """The results in the format of the operands."""
    return tuple(tensor.to(dtype) for tensor in tensors)


def list_steps(count: int, reverse: bool) -> Sequence[int]:
    """The time steps in the order in which forward runs them."""
    return range(count - 1, -1, -1) if reverse else range(count)


def shift(values: torch.Tensor, first: torch.Tensor, reverse: bool) -> torch.Tensor:
    """What each time step found: the value of the step that ran before it, `first` for the one that ran first."""
    start = first.unsqueeze(0)
    return torch.cat((values[1:], start)) if reverse else torch.cat((start, values[:-1]))


def multiply_inputs(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The part of the gates that the inputs make, for all time steps in one product."""
    time, batch, features = source.shape
    rows = source.reshape(time * batch, features)
    product = torch.mm(rows, weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return product.view(time, batch, weight.shape[0])


def start_gradient(
    grad_output: torch.Tensor | None, grad_last_hidden: torch.Tensor | None, output: torch.Tensor, reverse: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of the outputs of all time steps in float32, and of the state after the last of them."""
    wide = torch.zeros_like(output, dtype=torch.float32) if grad_output is None else grad_output.to(torch.float32)
    last = wide[0 if reverse else -1]
    return wide, last if grad_last_hidden is None else last + grad_last_hidden


def sum_input_gradient(differences: torch.Tensor, weight: torch.Tensor, wanted: bool) -> torch.Tensor:
    """The gradient of the inputs, from that of the gates."""
    if not wanted:
        return differences.new_empty(0)
    time, batch, wide = differences.shape
    return torch.mm(differences.reshape(time * batch, wide), weight).view(time, batch, weight.shape[1])


def sum_input_weight_gradient(differences: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """The gradient of the weights of the inputs: one product over all time steps."""
    time, batch, features = source.shape
    rows = differences.reshape(time * batch, differences.shape[-1])
    return torch.mm(rows.t(), source.reshape(time * batch, features))


def sum_hidden_weight_gradient(
    differences: torch.Tensor, output: torch.Tensor, hidden: torch.Tensor, reverse: bool
) -> torch.Tensor:
    """The gradient of the weights of the state: each time step read the output of the one before it."""
    wide, width = differences.shape[-1], output.shape[-1]
    later, earlier = (differences[:-1], output[1:]) if reverse else (differences[1:], output[:-1])
    first = differences[-1 if reverse else 0]
    total = torch.mm(first.t(), hidden)
    return total.addmm_(later.reshape(-1, wide).t(), earlier.reshape(-1, width))
