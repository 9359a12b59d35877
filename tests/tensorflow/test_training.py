"""Keras models trained in openipu's engine against TensorFlow: 20 steps, losses to 1e-5, weights to 1e-4."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from numpy.testing import assert_allclose

import tensorflow as tf
from openipu.graph import Phase, RunOptions, note_of
from openipu_tensorflow.engine import compile_step, marking_optimizers
from openipu_tensorflow.engine.describing import name_variables

layers = keras.layers


def build_cnn():
    """The CIFAR-10 network of the vendor's workshop, without its dropout, for smaller images."""
    hidden = [
        *(layers.Conv2D(32, 3, padding="same", activation="relu"), layers.Conv2D(32, 3, activation="relu")),
        *(layers.MaxPooling2D(2), layers.Conv2D(64, 3, padding="same", activation="relu")),
        *(layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D(2), layers.Flatten()),
        layers.Dense(64, activation="relu"),
    ]
    model = keras.Sequential([keras.Input((16, 16, 3)), *hidden, layers.Dense(10)])
    return model, np.random.default_rng(1).random((8, 16, 16, 3), np.float32), keras.optimizers.SGD(0.01, momentum=0.9)


def build_lstm():
    model = keras.Sequential(
        [
            keras.Input((12,)),
            layers.Embedding(50, 8),
            layers.LSTM(16, return_sequences=True),
            layers.LSTM(8),
            layers.Dense(10),
        ]
    )
    return model, np.random.default_rng(1).integers(0, 50, (8, 12)).astype(np.int32), keras.optimizers.Adam(1e-3)


def build_gru():
    model = keras.Sequential([keras.Input((6, 5)), layers.Bidirectional(layers.GRU(8)), layers.Dense(10)])
    return model, np.random.default_rng(1).random((8, 6, 5), np.float32), keras.optimizers.RMSprop(1e-3)


def build_transformer():
    inputs = keras.Input((10,))
    hidden = layers.Embedding(50, 16)(inputs)
    for _ in range(2):
        hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(2, 8)(hidden, hidden))
        wide = layers.Dense(32, activation="gelu")(hidden)
        hidden = layers.LayerNormalization()(hidden + layers.Dense(16)(wide))
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(hidden)))
    data = np.random.default_rng(1).integers(0, 50, (8, 10)).astype(np.int32)
    return model, data, keras.optimizers.AdamW(1e-3, global_clipnorm=1.0)


class Training:
    """One model, traced with its gradients marked."""

    def __init__(self, build):
        keras.backend.clear_session()  # so that names begin anew
        keras.utils.set_random_seed(1)
        self.model, self.x, self.optimizer = build()
        self.y = np.arange(len(self.x), dtype=np.int32) % 10
        self.optimizer.build(self.model.trainable_variables)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(y, self.model(x, training=True))
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self.optimizer.apply(gradients, self.model.trainable_variables)
            return loss

        with marking_optimizers():
            specs = [tf.TensorSpec(value.shape, value.dtype) for value in (self.x, self.y)]
            self.function = step.get_concrete_function(*specs)
        self.variables = dict(name_variables(self.function.graph).values())

    def compile(self, **settings):
        graph = self.function.graph
        step = compile_step(
            graph,
            inputs=graph.inputs[:2],
            outputs=graph.outputs[:1],
            targets=graph.control_outputs,
            options=RunOptions(training=True, **settings),
        )
        step.load({name: variable.numpy() for name, variable in self.variables.items()})
        return step


@pytest.mark.parametrize("build", [build_cnn, build_lstm, build_gru, build_transformer])
def test_twenty_steps_have_the_losses_and_weights_of_tensorflow(build):
    training = Training(build)
    step = training.compile()
    assert step.entangled == ""
    found = [float(step.run([training.x, training.y])[0]) for _ in range(20)]
    expected = [float(training.function(tf.constant(training.x), tf.constant(training.y))) for _ in range(20)]
    assert_allclose(found, expected, rtol=1e-5)
    for name, value in step.read().items():
        assert_allclose(value, training.variables[name].numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def test_accumulated_halves_of_a_batch_train_as_the_whole_batch():
    def build_half():
        model, x, optimizer = build_transformer()
        return model, x[:4], optimizer

    training = Training(build_transformer)
    whole, halves = training.compile(), Training(build_half).compile(gradient_accumulation=2)
    for _ in range(3):
        whole.run([training.x, training.y])
        halves.run([training.x, training.y])
    one, other = whole.read(), halves.read()
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert_allclose(other[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


def test_notes_name_keras_layers_in_forward_and_backward():
    step = Training(build_cnn).compile()
    notes = [note_of(node) for node in step.compiled.program.micro.module.graph.nodes if node.op == "call_function"]
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        modules = {note.module for note in notes if note.phase is phase}
        assert any("conv2d" in module for module in modules)
        assert any("dense" in module for module in modules)


def test_dropout_drops_and_its_gradient_uses_the_same_mask():
    weight = tf.Variable(np.ones(1000, np.float32), name="weight")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            kept = keras.random.dropout(x * weight, 0.25, seed=1)
            loss = tf.reduce_sum(kept)
        return kept, tape.gradient(loss, weight)

    graph = step.get_concrete_function(tf.TensorSpec((1000,))).graph
    compiled = compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs)
    compiled.load({"weight": weight.numpy()})
    kept, gradient = compiled.run([np.ones(1000, np.float32)])
    assert_allclose(kept, gradient)
    assert set(np.unique(np.round(kept, 5))) == {0.0, np.float32(np.round(4 / 3, 5))}
    assert 150 < (kept == 0).sum() < 350
