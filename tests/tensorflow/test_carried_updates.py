"""What a loop carries and an update makes: counts of steps that leave the loop as its result."""

from __future__ import annotations

import numpy as np

import tensorflow as tf
from openipu_tensorflow.ipu import config, ipu_compiler, ipu_infeed_queue, loops, scopes

v1 = tf.compat.v1


def test_a_count_of_updates_is_carried_and_stays_in_its_variable():
    """Both hold the same value, and neither takes it from the other."""
    made = config.IPUConfig()
    made.auto_select_ipus = 1
    made.configure_ipu_system()
    with tf.Graph().as_default():
        infeed = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(np.ones((4, 3), "f")).repeat())

        def step(count, x):
            weight = v1.get_variable("weight", initializer=np.ones((3, 2), "f"), use_resource=True)
            number = v1.get_variable("number", initializer=0, use_resource=True)
            loss = tf.reduce_mean(tf.matmul(x, weight))
            train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, number)
            with tf.control_dependencies([train]):
                return tf.identity(number)

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(lambda: loops.repeat(3, step, [0], infeed))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(infeed.initializer)
            assert session.run(run) == [3]
            assert session.run(run) == [6]
            weight, number = session.run(v1.global_variables())
    config.reset_ipu_configuration()
    assert number == 6
    np.testing.assert_allclose(weight, np.full((3, 2), 1 - 6 * 0.1 / 2), rtol=1e-6)
