"""`ipu_tensorflow_addons`: layers and optimizers against those of stock Keras, and against the maths."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from ipu_tensorflow_addons.keras import layers, optimizers
from ipu_tensorflow_addons.v1 import layers as old_layers
from tensorflow.python import ipu

import tensorflow as tf

RANDOM = np.random.default_rng(3)
v1 = tf.compat.v1


def draw(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("ours", "stock", "settings"),
    [
        (layers.LSTM, keras.layers.LSTM, {}),
        (layers.LSTM, keras.layers.LSTM, {"activation": "relu", "unit_forget_bias": False}),
        (layers.GRU, keras.layers.GRU, {"reset_after": False}),
        (layers.GRU, keras.layers.GRU, {"reset_after": True}),
    ],
)
@pytest.mark.parametrize("sequences", [True, False])
def test_a_recurrent_layer_equals_that_of_keras(ours, stock, settings, sequences):
    x = draw(2, 5, 3)
    mine, theirs = (kind(4, return_sequences=sequences, return_state=True, **settings) for kind in (ours, stock))
    mine.build(x.shape)
    theirs.build(x.shape)
    theirs.set_weights([draw(*value.shape) for value in theirs.get_weights()])
    mine.set_weights(theirs.get_weights())
    for one, other in zip(mine(x), theirs(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    with_first = [draw(2, 4) for _ in range(2 if ours is layers.LSTM else 1)]
    np.testing.assert_allclose(
        mine(x, initial_state=with_first)[0], theirs(x, initial_state=with_first)[0], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("layer", [layers.LSTM, layers.GRU])
@pytest.mark.parametrize(("sequences", "time_major"), [(True, False), (False, False), (True, True), (False, True)])
def test_a_recurrent_layer_takes_part_in_a_model_without_a_batch_size(layer, sequences, time_major):
    shape = (5, None, 3) if time_major else (None, 5, 3)
    entered = keras.Input(batch_shape=shape)
    result, *states = layer(4, return_sequences=sequences, return_state=True, time_major=time_major)(entered)
    again, *_ = layer(4, return_state=True, time_major=time_major)(entered, initial_state=states)
    model = keras.Model(entered, [result, *states, again])
    found = model(draw(*(2 if size is None else size for size in shape)))
    for symbol, value in zip(model.outputs, found, strict=True):
        assert tuple(2 if size is None else size for size in symbol.shape) == tuple(value.shape)
        assert symbol.dtype == value.dtype.name


def test_time_may_come_first_and_states_may_be_kept():
    x = draw(5, 2, 3)
    layer = layers.LSTM(4, time_major=True, stateful=True)
    first, second = layer(x), layer(x)
    assert not np.allclose(first, second)
    layer.reset_states()
    np.testing.assert_allclose(layer(x), first, rtol=1e-6)


def test_forget_gates_begin_open():
    layer = layers.LSTM(2)
    layer.build((1, 3, 3))
    np.testing.assert_array_equal(layer.biases, [0, 0, 1, 1, 0, 0, 0, 0])


def test_what_the_original_refuses_is_refused():
    with pytest.raises(ValueError, match="IPU custom LSTM layer does not support go_backwards = True"):
        layers.LSTM(2, go_backwards=True)
    with pytest.raises(ValueError, match="IPU custom GRU layer does not support kernel_regularizer"):
        layers.GRU(2, kernel_regularizer="l2")
    with pytest.raises(ValueError, match="no activation"):
        layers.LSTM(2, activation="selu")
    with pytest.raises(tf.errors.InternalError, match="must be greater than or equal to 0"):
        old_layers.PopnnGRU(2, options={"availableMemoryProportion": -1.0})


def test_layer_norm_equals_that_of_keras_and_group_norm_interleaves_channels():
    x = draw(3, 4, 6)
    np.testing.assert_allclose(
        layers.LayerNormalization(axis=[1, 2])(x), keras.layers.LayerNormalization(axis=[1, 2])(x), atol=1e-5
    )
    made = np.asarray(layers.GroupNormalization(groups=2, epsilon=0.0)(x))
    groups = x.reshape(3, 4, 3, 2)  # channel c is in group c % 2
    expected = (groups - groups.mean((1, 2), keepdims=True)) / groups.std((1, 2), keepdims=True)
    np.testing.assert_allclose(made, expected.reshape(x.shape), atol=1e-4)
    each = np.asarray(layers.InstanceNormalization(epsilon=0.0)(x))
    np.testing.assert_allclose(each, (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), atol=1e-4)


def test_a_dense_layer_in_parts_equals_a_whole_one():
    x = draw(2, 4, 6)
    for factor, dimension in ((2, "input_columns"), (3, "input_rows_kernel_columns"), (4, "kernel_rows")):
        mine = layers.SerialDense(8, factor, dimension, activation="relu")
        theirs = keras.layers.Dense(8, activation="relu")
        made = mine(x)
        theirs.build(x.shape)
        theirs.set_weights(mine.get_weights())
        np.testing.assert_allclose(made, theirs(x), rtol=1e-5, atol=1e-5)


def test_an_embedding_gives_rows_and_dropout_follows_its_seed():
    table = layers.Embedding(8, 3, serialization_factor=4)
    ids = np.array([[1, 7], [0, 1]])
    np.testing.assert_array_equal(table(ids), np.asarray(table.embeddings)[ids])
    drop = layers.Dropout(0.25, seed=[3, 4])
    x = np.ones(4000, np.float32)
    first = np.asarray(drop(x, training=True))
    np.testing.assert_array_equal(first, drop(x, training=True))
    np.testing.assert_array_equal(drop(x, training=False), x)
    assert np.mean(first == 0) == pytest.approx(0.25, abs=0.03)
    assert set(np.unique(first)) == {0.0, np.float32(1 / 0.75)}


@pytest.mark.parametrize(
    "layer",
    [
        layers.LSTM(3, dropout=0.1),
        layers.GRU(3, reset_after=True),
        layers.GroupNormalization(3),
        layers.InstanceNormalization(),
        layers.LayerNormalization(axis=[1, 2]),
        layers.Embedding(4, 5),
        layers.Dropout(0.5, seed=[1, 2]),
        layers.SerialDense(4, 2, "kernel_rows"),
        layers.CTCInferenceLayer(top_paths=2),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_comes_back_from_its_configuration(layer):
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config


def take_steps(optimizer, count=4):
    weights = keras.Variable(np.linspace(-1, 1, 6).astype(np.float32))
    optimizer.build([weights])
    for step in range(count):
        optimizer.apply([tf.constant(np.cos(np.arange(6.0) + step).astype(np.float32))], [weights])
    return np.asarray(weights)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (optimizers.AdamIpuOptimizer(0.1), keras.optimizers.Adam(0.1)),
        (optimizers.SGDIpuOptimizer(0.1, momentum=0.9), keras.optimizers.SGD(0.1, momentum=0.9)),
        (
            optimizers.SGDIpuOptimizer(0.1, momentum=0.9, nesterov=True),
            keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        ),
        (optimizers.LAMBIpuOptimizer(0.1, epsilon=1e-7), keras.optimizers.Lamb(0.1, epsilon=1e-7)),
    ],
    ids=["adam", "momentum", "nesterov", "lamb"],
)
def test_an_optimizer_equals_that_of_keras(mine, theirs):
    np.testing.assert_allclose(take_steps(mine), take_steps(theirs), rtol=1e-5, atol=1e-6)


def test_state_has_a_format_of_its_own_and_bias_may_stay():
    optimizer = optimizers.AdamIpuOptimizer(0.1, m_dtype=tf.float16, debiasing=False)
    made = take_steps(optimizer, 1)
    assert [state.dtype for state in (*optimizer.m, *optimizer.v)] == ["float16", "float32"]
    slope = np.cos(np.arange(6.0))
    expected = np.linspace(-1, 1, 6) - 0.1 * 0.1 * slope / (np.sqrt(0.001) * np.abs(slope) + 1e-7)
    np.testing.assert_allclose(made, expected, rtol=1e-4)


def compile_once(function, *arrays):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.device("cpu"):
            given = [v1.placeholder(value.dtype, value.shape) for value in arrays]
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            made = ipu.ipu_compiler.compile(function, given)
        session.run(v1.global_variables_initializer())
        return session.run(made, dict(zip(given, arrays, strict=True)))


def test_layers_of_tensorflow_1_train_on_the_device():
    x, lengths = draw(4, 2, 3), np.array([2, 4], np.int32)

    def compute(inputs, sizes):
        kernel = v1.constant_initializer(np.linspace(-0.5, 0.5, 7 * 16).reshape(7, 16))
        layer = old_layers.PopnnDynamicLSTM(4, weights_initializer=kernel)
        outputs, state = layer(inputs, sizes)
        (slope,) = v1.gradients(tf.reduce_sum(tf.square(outputs)), [layer.kernel])
        return outputs, state.h, state.c, tf.convert_to_tensor(slope)

    outputs, h, c, slope = compile_once(compute, x, lengths)
    theirs = keras.layers.LSTM(4, return_sequences=True, return_state=True, unit_forget_bias=False)
    theirs.build((2, 4, 3))
    whole = np.linspace(-0.5, 0.5, 7 * 16).reshape(7, 16).astype(np.float32)
    theirs.set_weights([whole[:3], whole[3:], np.zeros(16, np.float32)])
    for sample, size in enumerate(lengths):
        each, last_h, last_c = (np.asarray(value)[0] for value in theirs(x[:size, sample][None]))
        np.testing.assert_allclose(outputs[:size, sample], each, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(outputs[size:, sample], 0)
        np.testing.assert_allclose([h[sample], c[sample]], [last_h, last_c], rtol=1e-5, atol=1e-6)
    with tf.GradientTape() as tape:
        total = sum(tf.reduce_sum(tf.square(theirs(x[:size, n][None])[0])) for n, size in enumerate(lengths))
    expected = np.concatenate(tape.gradient(total, [theirs.cell.kernel.value, theirs.cell.recurrent_kernel.value]))
    np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5)


def test_attention_keeps_the_state_where_it_is_nothing():
    x = draw(3, 2, 3)

    def compute(inputs):
        layer = old_layers.PopnnAUGRU(4, return_state=False)
        lengths = tf.constant([3, 3])
        return layer(inputs, lengths, tf.zeros([3, 2])), layer(inputs, lengths, tf.ones([3, 2]))

    without, whole = compile_once(compute, x)
    assert not np.allclose(without, whole)
    assert np.abs(whole).max() > np.abs(without).max()  # the candidate alone, and none of the old state


def test_a_model_with_these_layers_fits_under_a_strategy():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    random = np.random.default_rng(0)  # data that do not depend on which tests went before
    x, y = random.integers(0, 16, (16, 6)), random.integers(0, 2, (16,))
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                keras.Input((6,), batch_size=4, dtype="int32"),
                layers.Embedding(16, 8),
                layers.LSTM(8),
                layers.LayerNormalization(),
                keras.layers.Dense(2),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizers.AdamIpuOptimizer(0.05), loss, steps_per_execution=4)
        history = model.fit(x, y, batch_size=4, epochs=12, verbose=0).history["loss"]
    assert history[-1] < 0.8 * history[0]  # sixteen samples are learnt by heart
