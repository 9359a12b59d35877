"""One LSTM layer in one direction by oneDNN, and its gradient: `openipu::lstm_onednn` and `lstm_onednn_backward`.

In: values, in float32 or half. Out: values in the same format. oneDNN has float32 training alone: half operands are
widened, and results rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from openipu.graph.library import define_operator

aten = torch.ops.aten

Tensors = tuple[torch.Tensor, ...]

_LSTM_MODE = 2  # as ATen numbers the kinds of recurrent layers
_OPERANDS = "Tensor input, Tensor hidden, Tensor cell, Tensor weight_input, Tensor weight_hidden"


def run_layer(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
    workspace_bytes: int,
) -> Tensors:
    """Output of all steps, last state, last cell, and oneDNN's workspace for backward, empty without training."""
    if workspace_bytes == 0:
        weights = _prepare(weight_input), _prepare(weight_hidden)
        with torch.no_grad():
            found = infer_layer(source, hidden, cell, *weights, bias, reverse)
        return (*found, torch.empty(0, dtype=torch.uint8))
    operands = _list_operands(source, hidden, cell, _prepare(weight_input), _prepare(weight_hidden), bias)
    # Without gradient mode the operator makes no workspace, whatever it is told of training.
    with torch.set_grad_enabled(True):
        *results, workspace = aten.mkldnn_rnn_layer.default(
            *operands, reverse, [], _LSTM_MODE, hidden.shape[-1], 1, True, False, False, True
        )
    return (*_round(results, source.dtype), workspace)


def infer_layer(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
) -> Tensors:
    """Output of all steps, last state, last cell, without gradients. The weights are float32, plain or packed."""
    operands = _list_operands(source, hidden, cell, weight_input, weight_hidden, bias)
    *results, _ = aten.mkldnn_rnn_layer.default(
        *operands, reverse, [], _LSTM_MODE, hidden.shape[-1], 1, True, False, False, False
    )
    return _round(results, source.dtype)


def _list_operands(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
) -> list[torch.Tensor]:
    """As oneDNN takes them: it adds two biases."""
    nothing = _make_zeros(4 * hidden.shape[-1])
    given = nothing if bias is None else _prepare(bias)
    return [_prepare(source), weight_input, weight_hidden, given, nothing, _prepare(hidden), _prepare(cell)]


def differentiate_layer(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    grad_last_cell: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    last_hidden: torch.Tensor,
    last_cell: torch.Tensor,
    workspace: torch.Tensor,
    reverse: bool,
) -> Tensors:
    """Gradients of input, first state, first cell, weights of the inputs, weights of the state, bias."""
    bias = _make_zeros(weight_input.shape[0])  # its value is in the gates already
    given = (source, weight_input, weight_hidden, bias, bias, hidden, cell, output, last_hidden, last_cell)
    operands = [_prepare(tensor) for tensor in given]
    gradients = [
        None if gradient is None else _prepare(gradient) for gradient in (grad_output, grad_last_hidden, grad_last_cell)
    ]
    of_input, of_weight_input, of_weight_hidden, of_bias, _, of_hidden, of_cell = (
        aten.mkldnn_rnn_layer_backward.default(
            *operands,
            *gradients,
            *(reverse, _LSTM_MODE, hidden.shape[-1], 1, True, True, False, [], False, workspace),
        )
    )
    return _round((of_input, of_hidden, of_cell, of_weight_input, of_weight_hidden, of_bias), source.dtype)


def _prepare(tensor: torch.Tensor) -> torch.Tensor:
    """In float32 and contiguous, and nothing that autograd would follow while gradient mode is on."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor.contiguous() if tensor.dtype is torch.float32 else tensor.to(torch.float32).contiguous()


def _round(results: Sequence[torch.Tensor], dtype: torch.dtype) -> Tensors:
    return tuple(results) if dtype is torch.float32 else tuple(result.to(dtype) for result in results)


@lru_cache(maxsize=64)
def _make_zeros(count: int) -> torch.Tensor:
    """Zeros that nobody writes to."""
    return torch.zeros(count, dtype=torch.float32)


def _shape(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
    workspace_bytes: int,
) -> Tensors:
    output = source.new_empty((*source.shape[:2], hidden.shape[-1]))
    states = (hidden.new_empty(hidden.shape), cell.new_empty(cell.shape))
    return (output, *states, source.new_empty(workspace_bytes, dtype=torch.uint8))


def _shape_backward(
    grad_output: torch.Tensor | None,
    grad_last_hidden: torch.Tensor | None,
    grad_last_cell: torch.Tensor | None,
    *operands: Any,
) -> Tensors:
    *alike, weight_input = (operands[index] for index in (0, 1, 2, 3, 4, 3))
    return (*(tensor.new_empty(tensor.shape) for tensor in alike), weight_input.new_empty(weight_input.shape[0]))


define_operator(
    f"lstm_onednn({_OPERANDS}, Tensor? bias, bool reverse, int workspace_bytes) "
    "-> (Tensor output, Tensor last_hidden, Tensor last_cell, Tensor workspace)",
    meta=_shape,
    cpu=run_layer,
)
define_operator(
    f"lstm_onednn_backward(Tensor? grad_output, Tensor? grad_last_hidden, Tensor? grad_last_cell, {_OPERANDS}, "
    "Tensor output, Tensor last_hidden, Tensor last_cell, Tensor workspace, bool reverse) -> (Tensor grad_input, "
    "Tensor grad_hidden, Tensor grad_cell, Tensor grad_weight_input, Tensor grad_weight_hidden, Tensor grad_bias)",
    meta=_shape_backward,
    cpu=differentiate_layer,
)

LSTM_ONEDNN = torch.ops.openipu.lstm_onednn.default
LSTM_ONEDNN_BACKWARD = torch.ops.openipu.lstm_onednn_backward.default
