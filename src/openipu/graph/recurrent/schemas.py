"""What the recurrent ops take and return, and the shapes of their results.

In: meta tensors. Out: empty tensors of the same shapes that the kernels in `lstm`, `gru` and `rnn` return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph.library import define_operator
from openipu.graph.recurrent import gru, lstm, rnn

Tensors = tuple[torch.Tensor, ...]

_LAYER = "Tensor weight_input, Tensor weight_hidden"
_GRADIENTS = "Tensor grad_input, Tensor grad_hidden"
_WEIGHT_GRADIENTS = "Tensor grad_weight_input, Tensor grad_weight_hidden"


def _like(*tensors: torch.Tensor) -> Tensors:
    return tuple(tensor.new_empty(tensor.shape) for tensor in tensors)


def _shape_output(source: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    return source.new_empty((*source.shape[:2], hidden.shape[-1]))


def _shape_saved(source: torch.Tensor, hidden: torch.Tensor, parts: int, training: bool) -> torch.Tensor:
    return source.new_empty((*source.shape[:2], parts * hidden.shape[-1]) if training else (0,))


def _shape_input_gradient(source: torch.Tensor, input_wanted: bool) -> torch.Tensor:
    return source.new_empty(source.shape if input_wanted else (0,))


def _shape_bias(weight: torch.Tensor) -> torch.Tensor:
    return weight.new_empty(weight.shape[:1])


def _shape_lstm(
    source: torch.Tensor,
    hidden: torch.Tensor,
    cell: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    reverse: bool,
    training: bool,
) -> Tensors:
    saved = (_shape_saved(source, hidden, parts, training) for parts in (lstm.GATES, 1))
    return (_shape_output(source, hidden), *_like(hidden, cell), *saved)


def _shape_lstm_backward(
    grad_output: torch.Tensor | None,
    grad_hidden: torch.Tensor | None,
    grad_cell: torch.Tensor | None,
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
    of_input = _shape_input_gradient(source, input_wanted)
    return (of_input, *_like(hidden, cell, weight_input, weight_hidden), _shape_bias(weight_input))


def _shape_gru(
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias_input: torch.Tensor | None,
    bias_hidden: torch.Tensor | None,
    reverse: bool,
    training: bool,
) -> Tensors:
    return (_shape_output(source, hidden), *_like(hidden), _shape_saved(source, hidden, gru.SAVED, training))


def _shape_gru_backward(
    grad_output: torch.Tensor | None,
    grad_hidden: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    gates: torch.Tensor,
    reverse: bool,
    input_wanted: bool,
) -> Tensors:
    of_input = _shape_input_gradient(source, input_wanted)
    biases = (_shape_bias(weight_input), _shape_bias(weight_hidden))
    return (of_input, *_like(hidden, weight_input, weight_hidden), *biases)


def _shape_rnn(
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    bias: torch.Tensor | None,
    rectify: bool,
    reverse: bool,
) -> Tensors:
    return (_shape_output(source, hidden), *_like(hidden))


def _shape_rnn_backward(
    grad_output: torch.Tensor | None,
    grad_hidden: torch.Tensor | None,
    source: torch.Tensor,
    hidden: torch.Tensor,
    weight_input: torch.Tensor,
    weight_hidden: torch.Tensor,
    output: torch.Tensor,
    rectify: bool,
    reverse: bool,
    input_wanted: bool,
) -> Tensors:
    of_input = _shape_input_gradient(source, input_wanted)
    return (of_input, *_like(hidden, weight_input, weight_hidden), _shape_bias(weight_input))


@dataclass(frozen=True, slots=True)
class _Definition:
    name: str
    arguments: str
    results: str
    shape: Callable[..., Tensors]
    run: Callable[..., Tensors]


_DEFINITIONS = (
    _Definition(
        "lstm_layer",
        f"Tensor input, Tensor hidden, Tensor cell, {_LAYER}, Tensor? bias, bool reverse, bool training",
        "Tensor output, Tensor last_hidden, Tensor last_cell, Tensor gates, Tensor cells",
        _shape_lstm,
        lstm.run_lstm,
    ),
    _Definition(
        "lstm_layer_backward",
        "Tensor? grad_output, Tensor? grad_last_hidden, Tensor? grad_last_cell, Tensor input, Tensor hidden, "
        f"Tensor cell, {_LAYER}, Tensor output, Tensor gates, Tensor cells, bool reverse, bool input_wanted",
        f"{_GRADIENTS}, Tensor grad_cell, {_WEIGHT_GRADIENTS}, Tensor grad_bias",
        _shape_lstm_backward,
        lstm.differentiate_lstm,
    ),
    _Definition(
        "gru_layer",
        f"Tensor input, Tensor hidden, {_LAYER}, Tensor? bias_input, Tensor? bias_hidden, bool reverse, bool training",
        "Tensor output, Tensor last_hidden, Tensor gates",
        _shape_gru,
        gru.run_gru,
    ),
    _Definition(
        "gru_layer_backward",
        f"Tensor? grad_output, Tensor? grad_last_hidden, Tensor input, Tensor hidden, {_LAYER}, Tensor output, "
        "Tensor gates, bool reverse, bool input_wanted",
        f"{_GRADIENTS}, {_WEIGHT_GRADIENTS}, Tensor grad_bias_input, Tensor grad_bias_hidden",
        _shape_gru_backward,
        gru.differentiate_gru,
    ),
    _Definition(
        "rnn_layer",
        f"Tensor input, Tensor hidden, {_LAYER}, Tensor? bias, bool rectify, bool reverse",
        "Tensor output, Tensor last_hidden",
        _shape_rnn,
        rnn.run_rnn,
    ),
    _Definition(
        "rnn_layer_backward",
        f"Tensor? grad_output, Tensor? grad_last_hidden, Tensor input, Tensor hidden, {_LAYER}, Tensor output, "
        "bool rectify, bool reverse, bool input_wanted",
        f"{_GRADIENTS}, {_WEIGHT_GRADIENTS}, Tensor grad_bias",
        _shape_rnn_backward,
        rnn.differentiate_rnn,
    ),
)


def _register(definition: _Definition) -> Any:
    schema = f"{definition.name}({definition.arguments}) -> ({definition.results})"
    return define_operator(schema, meta=definition.shape, cpu=definition.run)


RECURRENT_OPS: dict[str, Any] = {definition.name: _register(definition) for definition in _DEFINITIONS}
