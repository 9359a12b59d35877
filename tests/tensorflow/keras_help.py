"""Small models and data for the Keras tests, and stock Keras beside them."""

from __future__ import annotations

import keras
import numpy
from tensorflow.python import ipu

LAYERS = keras.layers
LOSS = "sparse_categorical_crossentropy"


def make_strategy(ipus=1, **options):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy(**options)


def make_data(samples=64, shape=(8,), classes=3, words=None):
    generator = numpy.random.default_rng(0)
    if words:
        x = generator.integers(0, words, (samples, *shape)).astype("int32")
    else:
        x = generator.normal(size=(samples, *shape)).astype("float32")
    return x, generator.integers(0, classes, samples)


def make_dense():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((8,))
    hidden = LAYERS.Dense(16, activation="tanh", name="hidden")(inputs)
    return keras.Model(inputs, LAYERS.Dense(3, activation="softmax", name="classes")(hidden))


def compile_model(model, steps=1, optimizer=None, **options):
    model.compile(optimizer or keras.optimizers.SGD(0.05), LOSS, steps_per_execution=steps, **options)
    return model


def largest_difference(one, other):
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return max(float(numpy.abs(a - b).max()) for a, b in pairs)


class Losses(keras.callbacks.Callback):
    """The loss after each batch that Keras is told of."""

    def __init__(self):
        super().__init__()
        self.batches, self.values = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append(batch)
        self.values.append(float(logs["loss"]))
