"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openipu.translate.paddle.calls import Answer, Call, translates


@translates("rnn")
def recurrent(call: Call) -> Answer:
    """Weights of all layers and directions, then their biases; gates lie as torch has them."""
    if call.has("SequenceLength"):
        call.fail("has sequences of several lengths in one batch: pad them to one length and leave sequence_length out")
    x, mode = call.tensor("Input"), str(call.get("mode", "LSTM"))
    layers, both = call.whole("num_layers", 1), call.flag("is_bidirec")
    weights = _order(call.tensors("WeightList"), layers * (2 if both else 1))
    states = call.tensors("PreState")
    share = 0.0 if call.flag("is_test") else call.number("dropout_prob")
    rest = (weights, True, layers, share, share > 0, both, False)
    if mode == "LSTM":
        result, hidden, cell = torch.lstm(x, states, *rest)
        return {"Out": result, "State": [hidden, cell]}
    functions = {"GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}
    if mode not in functions:
        call.fail(f"has the unknown mode {mode!r}")
    result, hidden = functions[mode](x, states[0], *rest)
    return {"Out": result, "State": [hidden]}


def _order(weights: Sequence[torch.Tensor], cells: int) -> list[torch.Tensor]:
    """Torch wants the two weights and the two biases of a cell side by side."""
    found = []
    for cell in range(cells):
        found += [*weights[2 * cell : 2 * cell + 2], *weights[2 * (cells + cell) : 2 * (cells + cell) + 2]]
    return found
