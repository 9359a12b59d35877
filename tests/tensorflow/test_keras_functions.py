"""`strategy.run` of functions of TensorFlow 2: loops over iterators and outfeeds, values and errors."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_help import largest_difference, make_data, make_dense, make_strategy
from tensorflow.python import ipu

import tensorflow as tf


@pytest.fixture
def strategy():
    return make_strategy()


def test_a_function_of_tensors_returns_what_tensorflow_returns(strategy):
    @tf.function
    def compute(x, scale):
        return {"sum": tf.reduce_sum(x) * scale, "rows": x[1:]}

    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    found = strategy.run(compute, [x, 2.0])
    expected = compute(x, 2.0)
    assert found["sum"].numpy() == expected["sum"].numpy() == 20.0
    numpy.testing.assert_array_equal(found["rows"], expected["rows"])
    assert strategy.run(compute, [2 * x, 2.0])["sum"].numpy() == 40.0


def test_variables_change_as_in_tensorflow(strategy):
    with strategy.scope():
        total = tf.Variable(1.0)

    @tf.function
    def add(x):
        total.assign_add(x)
        return total * 2.0

    assert strategy.run(add, [tf.constant(2.0)]).numpy() == 6.0
    assert strategy.run(add, [tf.constant(3.0)]).numpy() == 12.0
    assert total.numpy() == 6.0
    total.assign(0.0)
    assert strategy.run(add, [tf.constant(1.0)]).numpy() == 2.0


def train_custom(strategy, rounds, runs):
    """The tutorial's loop."""

    @tf.function(jit_compile=True)
    def loop(iterator, queue, model, optimizer, rounds):
        for _ in tf.range(rounds):
            features, labels = next(iterator)
            with tf.GradientTape() as tape:
                predictions = model(features, training=True)
                loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, predictions))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            queue.enqueue(loss)

    x, y = make_data()
    with strategy.scope():
        model, optimizer = make_dense(), keras.optimizers.SGD(0.05)
        data = tf.data.Dataset.from_tensor_slices((x, y.astype("int32"))).batch(8, drop_remainder=True).repeat()
        iterator, queue = iter(data), ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        for _ in range(runs):
            strategy.run(loop, args=[iterator, queue, model, optimizer, rounds])
    return model, queue


def test_a_loop_over_an_iterator_trains_as_stock_keras_and_hands_out_its_losses(strategy):
    model, queue = train_custom(strategy, rounds=4, runs=4)
    x, y = make_data()
    stock = make_dense()
    stock.compile(keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy")
    losses = [
        stock.train_on_batch(x[place : place + 8], y[place : place + 8])
        for place in [*range(0, 64, 8), *range(0, 64, 8)]
    ]
    assert largest_difference(stock, model) < 1e-6
    found = queue.dequeue()
    assert found.shape == (16,)
    assert found[0].numpy() == pytest.approx(losses[0], rel=1e-5)
    assert len(queue.dequeue()) == 0


def test_elements_of_a_data_set_are_for_programs(strategy):
    with strategy.scope():
        iterator = iter(tf.data.Dataset.range(4))
        with pytest.raises(RuntimeError, match="Accessing dataset elements"):
            next(iterator)
    with make_strategy(enable_dataset_iterators=False).scope():
        assert next(iter(tf.data.Dataset.range(4))).numpy() == 0


def test_a_data_set_that_ends_early_is_an_error_and_not_a_hang(strategy):
    @tf.function
    def take(iterator):
        return tf.reduce_sum(next(iterator))

    with strategy.scope():
        iterator = iter(tf.data.Dataset.from_tensor_slices(numpy.ones((2, 3), "float32")))
        assert [strategy.run(take, [iterator]).numpy() for _ in range(2)] == [3.0, 3.0]
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            strategy.run(take, [iterator])


def test_doubles_are_refused(strategy):
    double = tf.function(lambda x: x)
    with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
        strategy.run(double, [tf.constant(1.0, tf.float64)])
    wide = tf.function(lambda x: tf.cast(x, tf.float64))
    with pytest.raises(TypeError, match="Unsupported data type for output: float64"):
        strategy.run(wide, [tf.constant(1.0)])


def test_nothing_is_there_to_dequeue_before_a_run(strategy):
    with pytest.raises(ValueError, match="not been enqueued"):
        ipu.ipu_outfeed_queue.IPUOutfeedQueue().dequeue()


def test_a_layer_of_a_model_hands_its_values_to_an_outfeed(strategy):
    queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    class Watched(keras.layers.Layer):
        def call(self, inputs):
            queue.enqueue({"mean": tf.reduce_mean(inputs)})
            return inputs

    x, y = make_data(32)
    with strategy.scope():
        model = keras.Sequential([keras.Input((8,)), Watched(), keras.layers.Dense(3, activation="softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=4)
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    numpy.testing.assert_allclose(queue.dequeue()["mean"], x.reshape(4, -1).mean(1), rtol=1e-4, atol=1e-7)
