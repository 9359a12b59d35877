"""Recurrent layers: sequences are [time, batch, features], states [batch, hidden].

In: an old node of `openipu::lstm_layer`, `gru_layer`, `rnn_layer` or a gradient of theirs. Out: the same layer over the
batches of all micro-batches. What is given to another library for backward, as oneDNN's workspace is, has no parts for
single micro-batches: batch before a layer is given away.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from openipu.graph import RECURRENT_OPS
from openipu.run.rewrites.micro_batches.arguments import read_arguments
from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value, read_shape

aten = torch.ops.aten

_SEQUENCES = ("grad_output", "input", "output", "gates", "cells")
_STATES = ("grad_last_hidden", "grad_last_cell", "hidden", "cell")
_SHARED = ("weight_input", "weight_hidden")
_BIASES = ("bias", "bias_input", "bias_hidden")


def _batch_layer(writer: BatchWriter, node: fx.Node) -> Value | None:
    arguments = read_arguments(node)
    shared = (*_SHARED, *(name for name in _BIASES if name in arguments))
    if any(writer.is_batched(arguments[name]) for name in shared):
        return None
    return _write(writer, node, len(node.meta["val"]))


def write_layer_backward(writer: BatchWriter, node: fx.Node) -> tuple[fx.Node | None, ...]:
    """Gradients of the input and the states for each micro-batch, those of the weights summed."""
    states = 2 if "cell" in read_arguments(node) else 1
    return _write(writer, node, 1 + states)


def _write(writer: BatchWriter, node: fx.Node, each: int) -> tuple[fx.Node | None, ...]:
    arguments = read_arguments(node)
    changes: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, fx.Node) and name in _SEQUENCES:
            changes[name] = _join_sequences(writer, value)
        elif isinstance(value, fx.Node) and name in _STATES:
            changes[name] = writer.merge(writer.lift(value))
    items = writer.take_items(writer.repeat(node, changes))
    assert isinstance(items, tuple)
    return tuple(_part(writer, item) if index < each else item for index, item in enumerate(items))


def _join_sequences(writer: BatchWriter, node: fx.Node) -> fx.Node:
    value = writer.lift(node)
    _, time, batch, *features = read_shape(value)
    shape = [time, writer.factor * batch, *features]
    if value.target is aten.permute.default and value.args[1] == [1, 0, 2, 3]:
        (parted,) = value.all_input_nodes
        (joined,) = parted.all_input_nodes
        if parted.target is aten.view.default and list(read_shape(joined)) == shape:
            return joined  # as the layer returned it
    exchanged = writer.call(aten.permute.default, value, [1, 0, 2, 3])
    return writer.view(exchanged, shape)


def _part(writer: BatchWriter, item: fx.Node | None) -> fx.Node | None:
    if item is None:
        return None
    shape = read_shape(item)
    if len(shape) == 1:  # what nobody asked for is empty
        return writer.fill([writer.factor, *shape], 0.0, item.meta["val"].dtype)
    if len(shape) == 2:
        return writer.split(item)
    time, batch, features = shape
    parted = writer.view(item, [time, writer.factor, batch // writer.factor, features])
    return writer.call(aten.permute.default, parted, [1, 0, 2, 3])


RECURRENT: dict[Any, Any] = {
    target: _batch_layer for name, target in RECURRENT_OPS.items() if not name.endswith("_backward")
}
RECURRENT_BACKWARD = tuple(target for name, target in RECURRENT_OPS.items() if name.endswith("_backward"))
