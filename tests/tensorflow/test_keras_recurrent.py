"""LSTM and GRU layers as single ops: five steps of training against stock Keras' loops, and what stays a loop."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_help import LAYERS, compile_model, largest_difference, make_data, make_strategy

import tensorflow as tf
from openipu_tensorflow.keras.running.tracing import Mode, trace_step


def make(*recurrent):
    inputs = keras.Input((7, 5))
    x = inputs
    for layer in recurrent:
        x = layer(x)
    return keras.Model(inputs, LAYERS.Dense(3, activation="softmax")(x))


def make_with_states():
    """An encoder whose last states are the first ones of a decoder."""
    inputs = keras.Input((7, 5))
    _, hidden, cell = LAYERS.LSTM(6, return_state=True)(inputs)
    decoded = LAYERS.LSTM(6, return_sequences=True)(inputs, initial_state=[hidden, cell])
    return keras.Model(inputs, LAYERS.Dense(3, activation="softmax")(LAYERS.Flatten()(decoded)))


NETWORKS = {
    "LSTM": lambda: make(LAYERS.LSTM(6)),
    "LSTM backwards, all outputs": lambda: make(
        LAYERS.LSTM(6, return_sequences=True, go_backwards=True), LAYERS.LSTM(4)
    ),
    "GRU": lambda: make(LAYERS.GRU(6)),
    "GRU in two directions": lambda: make(LAYERS.Bidirectional(LAYERS.GRU(4, return_sequences=True)), LAYERS.GRU(4)),
    "LSTM with states": make_with_states,
}
LOOPS = {
    "mask": lambda: make(LAYERS.Masking(), LAYERS.LSTM(4)),
    "another activation": lambda: make(LAYERS.LSTM(4, activation="relu")),
    "no bias": lambda: make(LAYERS.GRU(4, use_bias=False)),
    "reset before": lambda: make(LAYERS.GRU(4, reset_after=False)),
    "as the user wishes": lambda: make(LAYERS.LSTM(4, use_cudnn=False)),
}


def list_layers(make_model):
    """Ops of whole layers in the trace of a training step."""
    with make_strategy().scope():
        model = compile_model(make_model())
        spec = (tf.TensorSpec((8, 7, 5), tf.float32), tf.TensorSpec((8,), tf.int32))
        model.optimizer.build(model.trainable_variables)
        traced = trace_step(model, Mode.FIT, spec)
    return [op.type for op in traced.graph.get_operations() if op.type.startswith("CudnnRNN")]


@pytest.mark.parametrize("name", NETWORKS)
def test_training_equals_the_loops_of_stock_keras(name):
    x, y = make_data(40, shape=(7, 5))
    models = []
    for scope in (tf.distribute.get_strategy(), make_strategy()):
        with scope.scope():
            keras.utils.set_random_seed(1)
            model = compile_model(NETWORKS[name](), 5, keras.optimizers.SGD(0.5))
            model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        models.append(model)
    assert largest_difference(*models) < 1e-6
    found, expected = (model.predict(x, batch_size=8, verbose=0) for model in models)
    numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_layer_is_one_op_and_its_gradient_another():
    assert list_layers(NETWORKS["LSTM"]) == ["CudnnRNNV3", "CudnnRNNBackpropV3"]


@pytest.mark.parametrize("name", LOOPS)
def test_what_cudnn_would_not_compute_stays_a_loop(name):
    assert list_layers(LOOPS[name]) == []


def test_stock_keras_is_left_as_it_was():
    with make_strategy().scope():
        compile_model(NETWORKS["LSTM"]()).fit(*make_data(8, shape=(7, 5)), batch_size=8, verbose=0)
    with pytest.raises(NotImplementedError):
        keras.src.backend.lstm(
            *(tf.zeros((1, 2, 3)), tf.zeros((1, 4)), tf.zeros((1, 4)), None, None, None, None, tf.tanh, tf.sigmoid)
        )
