"""What a loop of the device writes in a function of TensorFlow 2 is written, though its body returns none of it."""

import keras
import numpy as np
import pytest
from tensorflow.python import ipu

import tensorflow as tf


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_loop_updates_weights_by_gradients_summed_over_replicas(replicas):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = replicas
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        optimizer = keras.optimizers.SGD(0.01)
        count = tf.Variable(0.0)
        queue = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(np.ones((2, 1), np.float32)).repeat())

        @tf.function
        def train(model):
            def step(most, x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(model(x) ** 2)
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                count.assign_add(1.0)
                return tf.maximum(most, loss)

            return ipu.loops.repeat(3, step, [-1e6], queue)

        for run in range(2):
            most = strategy.run(train, args=[model])
            # d/dw of 2 w^2 is 4 w on each replica: w becomes (1 - 0.01 x 4 x replicas) w in each of 3 steps
            weight = (1 - 0.04 * replicas) ** (3 * run)
            np.testing.assert_allclose(most, 2 * weight**2, rtol=1e-5)
            np.testing.assert_allclose(model.get_weights()[0], weight * (1 - 0.04 * replicas) ** 3, rtol=1e-5)
            assert count.numpy() == 3 * (run + 1)
    ipu.config.reset_ipu_configuration()
