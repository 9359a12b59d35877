"""`keras.ipu.optimizers`: automatic loss scaling and accumulation around optimizers of Keras."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras.ipu import optimizers
from keras.ipu.layers import CaptureActivationGradients
from keras_help import compile_model, largest_difference, make_data, make_dense, make_strategy
from tensorflow.python import ipu

import tensorflow as tf


def apply_halves(optimizer, value, count, weights=None):
    """The factor before the first update, and after each."""
    weights = keras.Variable(numpy.zeros(4, "float16"), dtype="float16") if weights is None else weights
    found = [float(optimizer.loss_scaling_factor)]
    for _ in range(count):
        optimizer.apply([tf.fill([4], tf.cast(value, tf.float16))], [weights])
        found.append(float(optimizer.loss_scaling_factor))
    return found


def test_the_factor_grows_while_no_half_gradient_is_too_large_up_to_its_bound():
    optimizer = optimizers.ALSOptimizer("sgd", update_frequency=1, max_loss_scaling_factor=8)
    assert apply_halves(optimizer, 1.0, 4) == [1, 2, 4, 4, 4]  # less than the largest


def test_the_factor_shrinks_where_half_gradients_overflow_and_is_never_below_one():
    optimizer = optimizers.ALSOptimizer("sgd", initial_loss_scaling_factor=2, update_frequency=1)
    assert apply_halves(optimizer, numpy.inf, 3) == [2, 1, 1, 1]


def test_statistics_are_collected_over_the_updates_between_two_changes():
    optimizer = optimizers.ALSOptimizer("sgd", update_frequency=2)
    weights = keras.Variable(numpy.zeros(4, "float16"), dtype="float16")
    assert apply_halves(optimizer, 1.0, 2, weights) == [1, 1, 1]
    assert list(optimizer.histogram.numpy()) == [8, 0]  # 2 updates of 4 numbers
    assert int(optimizer.update_counter) == 2
    assert apply_halves(optimizer, 1.0, 1, weights) == [1, 2]
    assert list(optimizer.histogram.numpy()) == [0, 0]
    assert float(optimizer.previous_loss_scaling_factor) == 1


@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        (
            lambda: optimizers.ALSOptimizer(keras.optimizers.SGD(0.05), 8, update_frequency=1),
            keras.optimizers.SGD(0.05),
        ),
        (lambda: optimizers.ALSOptimizerAdam(0.01, initial_loss_scaling_factor=8), keras.optimizers.Adam(0.01)),
        (lambda: optimizers.ALSOptimizerSGD(0.05, 0.9, 8), keras.optimizers.SGD(0.05, 0.9)),
        (lambda: optimizers.ALSOptimizerRMSProp(0.01, initial_loss_scaling_factor=8), keras.optimizers.RMSprop(0.01)),
    ],
    ids=["wrapped", "adam", "momentum", "rmsprop"],
)
def test_scaled_float_gradients_train_as_plain_ones_do_accumulated_as_well(ours, stock):
    x, y = make_data(64)
    with make_strategy().scope():
        mine = compile_model(make_dense(), 4, ours())
        mine.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=2, gradient_accumulation_reduction_method="mean"
        )
        losses = mine.fit(x, y, batch_size=8, shuffle=False, verbose=0).history["loss"]
    plain = compile_model(make_dense(), 1, stock)
    plain.fit(x, y, batch_size=16, shuffle=False, verbose=0)
    assert largest_difference(mine, plain) < 1e-5
    assert float(mine.optimizer.loss_scaling_factor) > 1
    assert losses[0] < 5  # the loss itself, not the scaled one


def test_gradients_that_layers_capture_count_and_the_step_is_still_cut():
    x, y = make_data(32)
    with make_strategy().scope():
        inputs = keras.Input((8,))
        hidden = CaptureActivationGradients(keras.layers.Dense(16, activation="tanh", dtype="float16"))(inputs)
        model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(hidden))
        optimizer = optimizers.ALSOptimizer("sgd", captured_grads_only=True, histogram_bin_edge=2.0**-14)
        compile_model(model, 2, optimizer)
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        model.fit(x, y, batch_size=8, verbose=0)  # 2 updates of 2 micro-batches of 8
    assert sum(optimizer.histogram.numpy()) == 2 * 2 * 8 * 16
    assert optimizer.histogram.numpy()[1] > 0


def test_a_loop_accumulates_gradients_for_an_optimizer_of_keras():
    data = numpy.random.default_rng(1).normal(size=(8, 4)).astype("float32")
    start = numpy.ones((4, 1), "float32")
    strategy = make_strategy()
    with strategy.scope():
        weights = keras.Variable(start)
        optimizer = optimizers.GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 4, reduction_method="mean")
        optimizer.build([weights])
        queue = ipu.ipu_infeed_queue.IPUInfeedQueue(
            tf.data.Dataset.from_tensor_slices(data).batch(2, drop_remainder=True)
        )

        def body(rows):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(rows, tf.convert_to_tensor(weights.value))))
            optimizer.apply_gradients(zip(tape.gradient(loss, [weights.value]), [weights], strict=True))

        @tf.function
        def train():
            return ipu.loops.repeat(4, body, [], queue)

        strategy.run(train)
    wanted = start - 0.1 * 2 * data.T @ (data @ start) / 8
    numpy.testing.assert_allclose(numpy.asarray(weights), wanted, rtol=1e-5, atol=1e-6)


def test_one_micro_batch_needs_no_wrapper_and_fit_has_an_option_of_its_own():
    inner = keras.optimizers.SGD(0.1)
    assert optimizers.GradientAccumulationOptimizer(inner, 1) is inner
    x, y = make_data(16)
    with make_strategy().scope():
        model = compile_model(make_dense(), 1, optimizers.GradientAccumulationOptimizer(inner, 2))
        with pytest.raises(NotImplementedError, match="set_gradient_accumulation_options"):
            model.fit(x, y, batch_size=8, verbose=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"update_frequency": 0}, "update_frequency must be nonzero and positive"),
        ({"increase_factor": 3}, "increase_factor must be a power of two"),
        ({"initial_loss_scaling_factor": 10.0}, "initial_loss_scaling_factor must be a power of two"),
        ({"initial_loss_scaling_factor": 65536}, "must be less than max_loss_scaling_factor"),
        ({"initial_loss_scaling_factor": 16384}, "initial_loss_scaling_factor x increase_factor must be less"),
        ({"ratio_threshold": 1.0}, "ratio_threshold must be greater than zero and less than one"),
    ],
)
def test_settings_that_the_original_refuses_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        optimizers.ALSOptimizer("sgd", **settings)


def test_what_follows_from_the_gradients_may_only_be_read():
    with pytest.raises(ValueError, match="histogram is a read only property"):
        optimizers.ALSOptimizer("sgd").histogram = 1
    with pytest.raises(ValueError, match="must be an instance of ALSOptimizer"):
        optimizers.ALSGradientAccumulationOptimizer(keras.optimizers.SGD(), 2)


@pytest.mark.parametrize(
    "optimizer",
    [
        optimizers.ALSOptimizer(keras.optimizers.SGD(0.1), 4, lpf_alpha=0.5),
        optimizers.ALSOptimizerAdam(0.1, update_frequency=3),
        optimizers.GradientAccumulationOptimizer(keras.optimizers.SGD(0.1), 2),
    ],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_an_optimizer_comes_back_from_its_configuration(optimizer):
    config = optimizer.get_config()
    assert type(optimizer).from_config(config).get_config() == config
