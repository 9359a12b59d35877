"""`IPUStrategy`: what it runs, and what it refuses."""

from __future__ import annotations

import keras
import pytest
from keras_help import make_dense, make_strategy
from tensorflow.python import ipu

import tensorflow as tf
from openipu_tensorflow import keras as ipu_keras
from openipu_tensorflow.keras.running.running import on_ipu


def test_the_names_of_keras_lead_to_the_one_module():
    from keras import ipu as first
    from tensorflow.keras import ipu as second

    assert first is second is ipu_keras is ipu.keras is keras.ipu


def test_a_plain_function_is_refused_when_eager():
    with pytest.raises(ValueError, match="does not support eager execution"):
        make_strategy().run(lambda: tf.constant(1.0))


def test_what_was_deleted_says_so():
    with pytest.raises(RuntimeError, match="`experimental_run_v2` has been deleted"):
        make_strategy().experimental_run_v2(None)


def test_a_strategy_is_one_replica_to_keras_and_scales_losses():
    strategy = make_strategy(2)
    assert ipu.ipu_strategy.IPUStrategy is ipu.ipu_strategy.IPUStrategyV1
    assert (strategy.num_replicas_in_sync, strategy.supports_loss_scaling) == (1, True)


def test_only_models_of_the_scope_run_on_the_device():
    strategy = make_strategy()
    assert not on_ipu(make_dense())
    with strategy.scope():
        assert on_ipu(make_dense())
    assert not on_ipu(make_dense())
    with make_strategy(enable_keras_extensions=False).scope():
        assert not on_ipu(make_dense())


def test_eager_steps_and_overridden_ones_are_refused():
    class Own(keras.Sequential):
        def train_step(self, data):
            return {}

    with make_strategy().scope():
        model = Own([keras.Input((8,)), keras.layers.Dense(3)])
        model.compile("sgd", "mse")
        with pytest.raises(RuntimeError, match=r"`train_step` for the model .* has been overridden"):
            model.fit(tf.zeros((4, 8)), tf.zeros((4, 3)), batch_size=2)
        model = make_dense()
        model.compile("sgd", "mse", run_eagerly=True)
        with pytest.raises(RuntimeError, match="cannot run eagerly when using `IPUStrategy`"):
            model.evaluate(tf.zeros((4, 8)), tf.zeros((4, 3)), batch_size=2)


@pytest.mark.parametrize(("reduction", "expected"), [("SUM", 6.0), ("MEAN", 1.5)])
def test_the_replica_context_of_a_function_reduces_over_replicas(reduction, expected):
    @tf.function
    def step():
        index = tf.cast(ipu.replication_ops.replication_index(), tf.float32)
        return tf.distribute.get_replica_context().all_reduce(reduction, index)

    assert make_strategy(4).run(step).numpy() == expected
