"""Random numbers: those of a given seed follow from it, others from the device's seed."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_help import compile_model, largest_difference, make_data, make_strategy
from tensorflow.python import ipu

import tensorflow as tf

COUNT = 4000
KINDS = {
    "uniform": (tf.random.stateless_uniform, {}),
    "half": (tf.random.stateless_uniform, {"dtype": tf.float16}),
    "normal": (tf.random.stateless_normal, {}),
    "truncated": (tf.random.stateless_truncated_normal, {}),
    "whole": (tf.random.stateless_uniform, {"minval": -3, "maxval": 4, "dtype": tf.int32}),
}
MOMENTS = {  # mean and deviation, by the formulas of the distributions
    "uniform": (0.5, 12**-0.5),
    "half": (0.5, 12**-0.5),
    "normal": (0.0, 1.0),
    "truncated": (0.0, 0.8796),
    "whole": (0.0, 2.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_a_given_seed_are_the_same_whenever_they_are_drawn(kind):
    draw, options = KINDS[kind]

    @tf.function
    def run(seed):
        return draw([COUNT], seed, **options), draw([COUNT], seed, **options), draw([COUNT], [7, 8], **options)

    strategy = make_strategy()
    first, again, fixed = (value.numpy() for value in strategy.run(run, [tf.constant([1, 2])]))
    numpy.testing.assert_array_equal(first, again)
    other, _, still = (value.numpy() for value in strategy.run(run, [tf.constant([1, 3])]))
    numpy.testing.assert_array_equal(fixed, still)
    assert numpy.mean(first == other) < 0.2
    assert numpy.mean(first == fixed) < 0.2
    mean, deviation = MOMENTS[kind]
    found = first.astype("float64")
    assert found.mean() == pytest.approx(mean, abs=4 * deviation / COUNT**0.5)
    assert found.std() == pytest.approx(deviation, rel=0.05)
    if kind in ("uniform", "half"):
        assert first.min() >= 0
        assert first.max() < 1
    if kind == "truncated":
        assert numpy.abs(first).max() <= 2
    if kind == "whole":
        assert set(first) == set(range(-3, 4))


def make_dropout():
    keras.utils.set_random_seed(1)
    layers = [keras.Input((8,)), keras.layers.Dense(32), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
    return compile_model(keras.Sequential([*layers, keras.layers.Softmax()]), 4)


def train(strategy, seed):
    x, y = make_data(32)
    with strategy.scope():
        model = make_dropout()
        ipu.utils.reset_ipu_seed(seed)
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    return model


def test_models_of_one_process_draw_the_same_masks_from_the_same_seed_of_the_device():
    strategy = make_strategy()
    first, second, third = (train(strategy, seed) for seed in (5, 5, 6))
    assert largest_difference(first, second) == 0
    assert largest_difference(first, third) > 1e-3


def test_a_model_begins_again_with_the_seed_and_goes_on_without_one():
    x = numpy.ones((8, 64), "float32")
    with make_strategy().scope():
        model = keras.Sequential([keras.Input((64,)), keras.layers.Dropout(0.5, seed=3)])

        @tf.function
        def run(rows):
            return model(rows, training=True)

        strategy = tf.distribute.get_strategy()
        ipu.utils.reset_ipu_seed(1)
        first, second = (strategy.run(run, [x]).numpy() for _ in range(2))
        ipu.utils.reset_ipu_seed(1)
        again = strategy.run(run, [x]).numpy()
    assert (first != second).any()
    numpy.testing.assert_array_equal(first, again)
