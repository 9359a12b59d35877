"""`keras.ipu.layers`: where older programs look for layers, and layers that capture gradients."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_help import make_strategy
from tensorflow.python import ipu

import tensorflow as tf


def test_layers_have_one_home_under_three_names():
    import ipu_tensorflow_addons.keras.layers as addons

    assert ipu.layers is ipu.keras.layers is keras.ipu.layers
    assert ipu.layers.LayerNormalization is addons.LayerNormalization


class Noting(keras.optimizers.SGD):
    """SGD on half of the gradient that was captured, whatever it is given."""

    def __init__(self, tag):
        super().__init__(1.0)
        self.tag = tag

    def apply_gradients(self, pairs, captured_grads=None):
        pairs = list(pairs)
        captured = tf.reduce_sum(captured_grads[self.tag], axis=0)
        return super().apply_gradients([(tf.broadcast_to(captured, variable.shape), variable) for _, variable in pairs])


@pytest.mark.parametrize(("kind", "tag"), [("Upstream", "inner_cug"), ("Activation", "inner_cag_activation")])
def test_fit_hands_captured_gradients_to_an_optimizer_that_takes_them(kind, tag):
    x = numpy.array([[1.0, 2.0], [3.0, -1.0]], "f")
    start = numpy.array([0.5, -0.25], "f")
    with make_strategy().scope():
        inner = keras.layers.Dense(2, activation="tanh", use_bias=False, name="inner")
        wrapped = getattr(ipu.keras.layers, f"Capture{kind}Gradients")(inner)
        model = keras.Sequential([keras.Input((2,)), wrapped])
        inner.kernel.assign(numpy.stack([start, start]))
        model.compile(Noting(tag), lambda target, found: tf.reduce_sum(found * found))
        model.fit(x, x, batch_size=2, verbose=0)
    made = numpy.tanh(x @ numpy.stack([start, start]))
    gradient = 2 * made if kind == "Upstream" else 2 * made * (1 - made**2)
    numpy.testing.assert_allclose(inner.kernel.numpy(), numpy.stack([start, start]) - gradient.sum(0), rtol=1e-5)


def test_a_layer_that_captures_is_saved_with_the_layer_inside(tmp_path):
    model = keras.Sequential(
        [keras.Input((2,)), ipu.keras.layers.CaptureActivationGradients(keras.layers.Dense(3, "relu"), tag="mine")]
    )
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    x = numpy.ones((1, 2), "f")
    numpy.testing.assert_allclose(again(x), model(x), rtol=1e-6)
    assert again.layers[0].tag == "mine"


def test_what_has_no_activation_or_is_no_layer_is_refused():
    with pytest.raises(ValueError, match="does not use an activation function"):
        ipu.keras.layers.CaptureActivationGradients(keras.layers.Flatten())
    with pytest.raises(ValueError, match="can only wrap a Keras layer"):
        ipu.keras.layers.CaptureUpstreamGradients(keras.activations.relu)
