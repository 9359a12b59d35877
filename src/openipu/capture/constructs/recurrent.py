"""LSTM, GRU and simple recurrent layers: each layer and direction becomes one op of the graph, and one of its gradient.

In: a call of `torch.lstm`, `torch.gru`, `torch.rnn_tanh` or `torch.rnn_relu`. Out: its results. Stacks, directions,
initial states and dropout between layers are ordinary ops around those of `openipu.graph.recurrent`. What these do not
cover (projections, packed sequences, operands that do not match) goes to PyTorch's own function: that unrolls the
layer over time, or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from openipu.graph import RECURRENT_OPS

Tensors = tuple[torch.Tensor, ...]
Gradients = tuple[torch.Tensor | None, ...]

_FORMATS = (torch.float32, torch.float16)
_ARGUMENTS = 9  # of the form for plain sequences, all by position as torch.nn gives them


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer in one direction: states and weights, biases None where there are none."""

    states: Tensors
    weight_input: torch.Tensor
    weight_hidden: torch.Tensor
    biases: tuple[torch.Tensor, torch.Tensor] | None
    reverse: bool

    @property
    def bias(self) -> torch.Tensor | None:
        """For cells in which only the sum of both counts."""
        return None if self.biases is None else self.biases[0] + self.biases[1]


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of `torch.lstm` and its kin."""

    source: torch.Tensor
    states: Tensors
    weights: Sequence[torch.Tensor]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1


class _LstmLayer(torch.autograd.Function):
    """`openipu::lstm_layer`, differentiable once."""

    @staticmethod
    def forward(ctx: Any, training: bool, reverse: bool, *operands: torch.Tensor) -> Any:
        results = RECURRENT_OPS["lstm_layer"](*operands, reverse, training)
        output, last_hidden, last_cell, gates, cells = results
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands[:5], output, gates, cells)
        ctx.reverse = reverse
        return output, last_hidden, last_cell

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        wanted = ctx.needs_input_grad[2]
        made = RECURRENT_OPS["lstm_layer_backward"](*gradients, *ctx.saved_tensors, ctx.reverse, wanted)
        return None, None, *_keep_needed(ctx, made)


class _GruLayer(torch.autograd.Function):
    """`openipu::gru_layer`, differentiable once."""

    @staticmethod
    def forward(ctx: Any, training: bool, reverse: bool, *operands: torch.Tensor) -> Any:
        output, last_hidden, gates = RECURRENT_OPS["gru_layer"](*operands, reverse, training)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands[:4], output, gates)
        ctx.reverse = reverse
        return output, last_hidden

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        wanted = ctx.needs_input_grad[2]
        made = RECURRENT_OPS["gru_layer_backward"](*gradients, *ctx.saved_tensors, ctx.reverse, wanted)
        return None, None, *_keep_needed(ctx, made)


class _RnnLayer(torch.autograd.Function):
    """`openipu::rnn_layer`, differentiable once."""

    @staticmethod
    def forward(ctx: Any, rectify: bool, reverse: bool, *operands: torch.Tensor) -> Any:
        output, last_hidden = RECURRENT_OPS["rnn_layer"](*operands, rectify, reverse)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands[:4], output)
        ctx.flags = (rectify, reverse)
        return output, last_hidden

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        wanted = ctx.needs_input_grad[2]
        made = RECURRENT_OPS["rnn_layer_backward"](*gradients, *ctx.saved_tensors, *ctx.flags, wanted)
        return None, None, *_keep_needed(ctx, made)


def _keep_needed(ctx: Any, made: Tensors) -> Gradients:
    """The gradients that somebody waits for; the first two arguments are flags."""
    return tuple(gradient if needed else None for gradient, needed in zip(made, ctx.needs_input_grad[2:], strict=True))


def _run_lstm(source: torch.Tensor, layer: _Layer) -> Tensors:
    operands = (source, *layer.states, layer.weight_input, layer.weight_hidden, layer.bias)
    found: Tensors = _LstmLayer.apply(_is_trained(operands), layer.reverse, *operands)  # type: ignore[no-untyped-call]
    return found


def _run_gru(source: torch.Tensor, layer: _Layer) -> Tensors:
    biases = layer.biases or (None, None)
    operands = (source, *layer.states, layer.weight_input, layer.weight_hidden, *biases)
    found: Tensors = _GruLayer.apply(_is_trained(operands), layer.reverse, *operands)  # type: ignore[no-untyped-call]
    return found


def _run_rnn(rectify: bool) -> Callable[[torch.Tensor, _Layer], Tensors]:
    def run(source: torch.Tensor, layer: _Layer) -> Tensors:
        operands = (source, *layer.states, layer.weight_input, layer.weight_hidden, layer.bias)
        found: Tensors = _RnnLayer.apply(rectify, layer.reverse, *operands)  # type: ignore[no-untyped-call]
        return found

    return run


def _is_trained(operands: Sequence[torch.Tensor | None]) -> bool:
    """Will backward ask for what forward computed?"""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in operands)


@dataclass(frozen=True, slots=True)
class _Kind:
    gates: int
    states: int
    run: Callable[[torch.Tensor, _Layer], Tensors]


_KINDS: dict[Any, _Kind] = {
    torch.lstm: _Kind(4, 2, _run_lstm),
    torch.gru: _Kind(3, 1, _run_gru),
    torch.rnn_tanh: _Kind(1, 1, _run_rnn(False)),
    torch.rnn_relu: _Kind(1, 1, _run_rnn(True)),
}
RECURRENT_FUNCTIONS = frozenset(_KINDS)


def call_recurrent(func: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The layers of one call, each as an op of its own."""
    kind = _KINDS[func]
    call = _read_call(kind, args, keywords)
    if call is None:
        return func(*args, **keywords)
    source = call.source.transpose(0, 1) if call.batch_first else call.source
    last: list[list[torch.Tensor]] = [[] for _ in range(kind.states)]
    for number in range(call.layers):
        outputs: list[torch.Tensor] = []
        for direction in range(call.directions):
            output, *states = kind.run(source, _read_layer(call, number, direction))
            outputs.append(output)
            for kept, state in zip(last, states, strict=True):
                kept.append(state)
        source = outputs[0] if len(outputs) == 1 else torch.cat(outputs, -1)
        if call.train and call.dropout and number + 1 < call.layers:
            source = torch.dropout(source, call.dropout, True)
    found = source.transpose(0, 1) if call.batch_first else source
    return found, *(kept[0].unsqueeze(0) if len(kept) == 1 else torch.stack(kept) for kept in last)


def _read_call(kind: _Kind, args: Sequence[Any], keywords: dict[str, Any]) -> _Call | None:
    """The call, if it is one that the ops cover."""
    # The form for packed sequences has its weights where this one says whether there are biases.
    if keywords or len(args) != _ARGUMENTS or not isinstance(args[3], bool):
        return None
    source, given, weights, has_biases, layers, *rest = args
    call = _Call(source, tuple(given) if kind.states > 1 else (given,), weights, has_biases, layers, *rest)
    return call if _matches(kind, call) else None


def _matches(kind: _Kind, call: _Call) -> bool:
    tensors = (call.source, *call.states, *call.weights)
    if not all(tensor.is_meta and tensor.dtype is call.source.dtype for tensor in tensors):
        return False
    if call.source.dtype not in _FORMATS or call.source.dim() != 3 or not call.source.numel():
        return False
    of_layer = 4 if call.has_biases else 2
    if len(call.states) != kind.states or len(call.weights) != call.layers * call.directions * of_layer:
        return False
    batch, width = call.source.shape[0 if call.batch_first else 1], call.states[0].shape[-1]
    if any(state.shape != (call.layers * call.directions, batch, width) for state in call.states):
        return False
    wide = kind.gates * width
    for index in range(call.layers * call.directions):
        features = call.source.shape[-1] if index < call.directions else call.directions * width
        expected = [(wide, features), (wide, width), (wide,), (wide,)][:of_layer]
        found = [tuple(weight.shape) for weight in call.weights[index * of_layer : (index + 1) * of_layer]]
        if expected != found:
            return False
    return True


def _read_layer(call: _Call, number: int, direction: int) -> _Layer:
    of_layer = 4 if call.has_biases else 2
    index = number * call.directions + direction
    weight_input, weight_hidden, *biases = call.weights[index * of_layer : (index + 1) * of_layer]
    return _Layer(
        tuple(state[index] for state in call.states),
        weight_input,
        weight_hidden,
        (biases[0], biases[1]) if biases else None,
        direction == 1,
    )
