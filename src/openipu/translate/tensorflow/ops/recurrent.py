"""Whole recurrent layers, as TensorFlow's ops for cuDNN have them, and their gradients.

A layer keeps what its gradient needs where cuDNN has its reserve: gates, and the cells of an LSTM. Weights and biases
of all gates lie behind one another in one vector: [gates x units, features], [gates x units, units], two biases.
"""

from __future__ import annotations

import torch

from openipu.graph import RECURRENT_OPS
from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor
_GATES = {"lstm": 4, "gru": 3}


def _read_mode(site: Site) -> str:
    """The kind of layer; only what one layer in one direction over whole sequences is."""
    mode = str(site.get("rnn_mode", "lstm"))
    if mode not in _GATES:
        site.fail(f"is a layer of the kind {mode!r}, which has no rule")
    if str(site.get("direction", "unidirectional")) != "unidirectional" or int(site.get("num_proj", 0)):
        site.fail("runs in two directions, or has a projection")
    if site.number("dropout", 0.0) or str(site.get("input_mode", "linear_input")) == "skip_input":
        site.fail("drops or skips some of its input")
    if not site.get("time_major", True):
        site.fail("has the batch before the time: give it [time, batch, features]")
    if any(length != site.input(0).shape[0] for length in site.numbers(4, "lengths of the sequences")):
        site.fail("has sequences of several lengths")
    return mode


def _split(params: Tensor, features: int, units: int, gates: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = gates * units
    sizes = [rows * features, rows * units, rows, rows]
    if params.numel() != sum(sizes):
        raise ValueError(f"{params.numel()} parameters are not those of one layer, {sum(sizes)}")
    of_input, of_state, bias_input, bias_state = torch.split(params, sizes)
    return of_input.view(rows, features), of_state.view(rows, units), bias_input, bias_state


@rule("CudnnRNNV3", static=(4,))
def run_layer(site: Site) -> list[Tensor]:
    """(input, hidden, cell, parameters, lengths) -> output, last hidden, last cell, and what the gradient needs."""
    mode, x, hidden = _read_mode(site), site.input(0), site.input(1)[0]
    weights = _split(site.input(3), x.shape[2], hidden.shape[-1], _GATES[mode])
    training = bool(site.get("is_training", True))
    if mode == "lstm":
        bias = weights[2] + weights[3]
        output, last, cell, gates, cells = RECURRENT_OPS["lstm_layer"](
            x, hidden, site.input(2)[0], *weights[:2], bias, False, training
        )
        return [output, last.unsqueeze(0), cell.unsqueeze(0), gates, cells]
    output, last, gates = RECURRENT_OPS["gru_layer"](x, hidden, *weights, False, training)
    nothing = last.new_zeros(())  # in the places of what an LSTM has
    return [output, last.unsqueeze(0), nothing, gates, nothing]


@rule("CudnnRNNBackpropV3", static=(4,))
def differentiate_layer(site: Site) -> list[Tensor]:
    """(..., output, last hidden, last cell, their gradients, gates, cells) -> gradients of what went in."""
    mode, x, hidden = _read_mode(site), site.input(0), site.input(1)[0]
    of_input, of_state, _, _ = _split(site.input(3), x.shape[2], hidden.shape[-1], _GATES[mode])
    output, grad_output, grad_last, gates = site.input(5), site.input(8), site.input(9)[0], site.input(11)
    if mode == "lstm":
        found = RECURRENT_OPS["lstm_layer_backward"](
            *(grad_output, grad_last, site.input(10)[0]),
            *(x, hidden, site.input(2)[0], of_input, of_state, output, gates, site.input(12), False, True),
        )
        grad_x, grad_hidden, grad_cell, grad_of_input, grad_of_state, grad_bias = found
        parts = [grad_of_input, grad_of_state, grad_bias, grad_bias]
        return [grad_x, grad_hidden.unsqueeze(0), grad_cell.unsqueeze(0), _join(parts)]
    found = RECURRENT_OPS["gru_layer_backward"](
        grad_output, grad_last, x, hidden, of_input, of_state, output, gates, False, True
    )
    grad_x, grad_hidden, *parts = found
    return [grad_x, grad_hidden.unsqueeze(0), grad_x.new_zeros(()), _join(parts)]


def _join(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])
