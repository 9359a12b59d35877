"""LSTM and GRU layers of Keras as one op each, in place of a loop over time.

In: a step that is traced. Out: while it lasts, layers that Keras would give to cuDNN on a GPU become cuDNN's op in the
graph, which is translated like any other: nothing runs on a GPU. Layers with masks, with other activations or without a
bias stay the loop that they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras.src.backend as keras_backend
from keras.src.backend.tensorflow.rnn import _do_gru_arguments_support_cudnn, _do_lstm_arguments_support_cudnn

import tensorflow as tf


@contextlib.contextmanager
def whole_layers(training: bool) -> Iterator[None]:
    """While this lasts, recurrent layers are single ops; `training`: with what their gradients need."""
    original = keras_backend.lstm, keras_backend.gru
    keras_backend.lstm, keras_backend.gru = _make_lstm(training), _make_gru(training)
    try:
        yield
    finally:
        keras_backend.lstm, keras_backend.gru = original


def _make_lstm(training: bool) -> Callable[..., Any]:
    def lstm(
        inputs: Any,
        initial_state_h: Any,
        initial_state_c: Any,
        mask: Any,
        kernel: Any,
        recurrent_kernel: Any,
        bias: Any,
        activation: Any,
        recurrent_activation: Any,
        return_sequences: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        time_major: bool = False,
    ) -> Any:
        fits = _do_lstm_arguments_support_cudnn(activation, recurrent_activation, unroll, bias is not None)
        if mask is not None or not fits or not _is_plain(inputs):
            raise NotImplementedError
        kernel, recurrent_kernel, bias = _read(inputs.dtype, kernel, recurrent_kernel, bias)
        params = _join([tf.transpose(kernel), tf.transpose(recurrent_kernel), tf.zeros_like(bias), bias])
        found = _run("lstm", inputs, initial_state_h, initial_state_c, params, go_backwards, time_major, training)
        return _finish(found, return_sequences, time_major)

    return lstm


def _make_gru(training: bool) -> Callable[..., Any]:
    def gru(
        inputs: Any,
        initial_state: Any,
        mask: Any,
        kernel: Any,
        recurrent_kernel: Any,
        bias: Any,
        activation: Any,
        recurrent_activation: Any,
        return_sequences: bool = False,
        go_backwards: bool = False,
        unroll: bool = False,
        time_major: bool = False,
        reset_after: bool = True,
    ) -> Any:
        fits = _do_gru_arguments_support_cudnn(activation, recurrent_activation, unroll, bias is not None, reset_after)
        if mask is not None or not fits or not _is_plain(inputs):
            raise NotImplementedError
        kernel, recurrent_kernel, bias = _read(inputs.dtype, kernel, recurrent_kernel, bias)
        parts = [_swap(tf.transpose(kernel)), _swap(tf.transpose(recurrent_kernel)), *map(_swap, tf.unstack(bias))]
        state = tf.nest.flatten(initial_state)[0]
        found = _run("gru", inputs, state, None, _join(parts), go_backwards, time_major, training)
        return _finish(found[:2], return_sequences, time_major)

    return gru


def _is_plain(inputs: Any) -> bool:
    return bool(inputs.shape.is_fully_defined() and inputs.dtype in (tf.float32, tf.float16))


def _read(dtype: Any, *weights: Any) -> list[Any]:
    """Values of Keras' variables, in the format in which the layer computes."""
    return [tf.cast(keras_backend.convert_to_tensor(weight), dtype) for weight in weights]


def _swap(rows: Any) -> Any:
    """Keras has the gates of a GRU in the order update, reset, new; cuDNN has reset first."""
    update, reset, new = tf.split(rows, 3)
    return tf.concat([reset, update, new], 0)


def _join(parts: list[Any]) -> Any:
    return tf.concat([tf.reshape(part, [-1]) for part in parts], 0)


def _run(
    mode: str, inputs: Any, hidden: Any, cell: Any, params: Any, go_backwards: bool, time_major: bool, training: bool
) -> list[Any]:
    x = inputs if time_major else tf.transpose(inputs, [1, 0, 2])
    if go_backwards:  # outputs come in the order in which the layer runs
        x = tf.reverse(x, [0])
    output, last, last_cell, _, _ = tf.raw_ops.CudnnRNNV3(
        input=x,
        input_h=hidden[None],
        input_c=tf.zeros([], x.dtype) if cell is None else cell[None],
        params=params,
        sequence_lengths=tf.constant([x.shape[0]] * x.shape[1]),
        rnn_mode=mode,
        is_training=training,
        time_major=True,
    )
    return [output, last[0], last_cell] if cell is None else [output, last[0], last_cell[0]]


def _finish(found: list[Any], return_sequences: bool, time_major: bool) -> Any:
    """As Keras' own loops return it: the last output, all of them, the states."""
    outputs, *states = found
    axis = 0 if time_major else 1
    if not return_sequences:
        outputs = tf.expand_dims(states[0], axis)
    elif not time_major:
        outputs = tf.transpose(outputs, [1, 0, 2])
    return states[0], outputs, states
