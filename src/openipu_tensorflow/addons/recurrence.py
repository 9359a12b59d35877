"""Recurrent layers over whole sequences, in TensorFlow's ops.

In: inputs [time, batch, features], weights with gates side by side in Keras' order, first states. Out: all outputs and
the last states. Products with the inputs are taken for all steps at once; the steps are a loop. Steps beyond a
sequence's own length leave its state as it is, and put out zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

Function = Callable[[Any], Any]
_ACTIVATIONS: dict[str, Function] = {
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "sigmoid": tf.sigmoid,
    "hard_sigmoid": lambda x: tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0),
    "linear": tf.identity,
}


def name_activation(activation: Any) -> str:
    """The name of an activation that recurrent layers have."""
    name = "linear" if activation is None else getattr(activation, "__name__", activation)
    if name not in _ACTIVATIONS:
        raise ValueError(f"Recurrent layers have no activation {activation!r}: one of {', '.join(_ACTIVATIONS)}.")
    return str(name)


def check_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of PopLibs for a layer. They are looked at and have no effect: the program's own options say how products
    are priced."""
    found = dict(options or {})
    proportion = found.get("availableMemoryProportion", 0)
    if float(proportion) < 0:
        raise tf.errors.InternalError(
            None, None, f"Value must be greater than or equal to 0: availableMemoryProportion is {proportion}."
        )
    return found


def run_lstm(
    inputs: Any,
    kernel: Any,
    recurrent: Any,
    bias: Any,
    first: tuple[Any, Any],
    activation: str = "tanh",
    gate: str = "sigmoid",
    lengths: Any = None,
) -> tuple[Any, Any, Any]:
    """(outputs, last h, last c). `first`: h and c. Gates: input, forget, cell, output."""
    act, open_gate = _ACTIVATIONS[activation], _ACTIVATIONS[gate]

    def step(states: tuple[Any, ...], given: tuple[Any, Any]) -> tuple[Any, ...]:
        h, c, _ = states
        entered, going = given
        into, forget, cell, out = tf.split(entered + tf.matmul(h, recurrent), 4, axis=1)
        new_c = open_gate(forget) * c + open_gate(into) * act(cell)
        new_h = open_gate(out) * act(new_c)
        return _keep(going, new_h, h), _keep(going, new_c, c), new_h * going

    entered = tf.tensordot(inputs, kernel, 1) + bias
    states = tf.scan(step, (entered, _mark_steps(inputs, lengths)), (*first, tf.zeros_like(first[0])))
    return states[2], states[0][-1], states[1][-1]


def run_gru(
    inputs: Any,
    kernel: Any,
    recurrent: Any,
    bias: Any,
    first: Any,
    activation: str = "tanh",
    gate: str = "sigmoid",
    reset_after: bool = False,
    lengths: Any = None,
    attention: Any = None,
) -> tuple[Any, Any]:
    """(outputs, last h). Gates: update, reset, candidate; with `reset_after`, a second row of bias for the products
    with h. `attention` [time, batch] scales the update gate down."""
    act, open_gate = _ACTIVATIONS[activation], _ACTIVATIONS[gate]
    units = int(recurrent.shape[0])
    own, inner = (bias[0], bias[1]) if reset_after else (bias, None)

    def step(states: tuple[Any, Any], given: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        h, _ = states
        entered, going, score = given
        if reset_after:
            turned = tf.matmul(h, recurrent) + inner
            update, reset = tf.split(open_gate(entered[:, : 2 * units] + turned[:, : 2 * units]), 2, axis=1)
            candidate = act(entered[:, 2 * units :] + reset * turned[:, 2 * units :])
        else:
            turned = tf.matmul(h, recurrent[:, : 2 * units])
            update, reset = tf.split(open_gate(entered[:, : 2 * units] + turned), 2, axis=1)
            candidate = act(entered[:, 2 * units :] + tf.matmul(reset * h, recurrent[:, 2 * units :]))
        kept = update * (1 - score)
        new_h = kept * h + (1 - kept) * candidate
        return _keep(going, new_h, h), new_h * going

    entered = tf.tensordot(inputs, kernel, 1) + own
    going = _mark_steps(inputs, lengths)
    scores = tf.zeros_like(going) if attention is None else tf.reshape(tf.cast(attention, inputs.dtype), going.shape)
    states = tf.scan(step, (entered, going, scores), (first, tf.zeros_like(first)))
    return states[1], states[0][-1]


def _mark_steps(inputs: Any, lengths: Any) -> Any:
    """[time, batch, 1]: 1 while a sequence goes on, 0 behind its end."""
    steps, batch = int(inputs.shape[0]), int(inputs.shape[1])
    if lengths is None:
        return tf.ones([steps, batch, 1], inputs.dtype)
    going = tf.range(steps)[:, None] < tf.cast(lengths, tf.int32)[None]
    return tf.cast(going, inputs.dtype)[:, :, None]


def _keep(going: Any, new: Any, old: Any) -> Any:
    return going * new + (1 - going) * old
