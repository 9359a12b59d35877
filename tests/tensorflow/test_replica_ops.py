"""Ops between replicas inside graphs: in loops, in training, in functions; equal to what the maths says."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1


def configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def run_once(function, *inputs, replicas=4):
    configure(replicas)
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.device("cpu"):
            given = [v1.placeholder(value.dtype, value.shape) for value in inputs]
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            made = ipu.ipu_compiler.compile(function, given)
        session.run(v1.global_variables_initializer())
        return session.run(made, dict(zip(given, inputs, strict=True)))


def own(x):
    """The input, different on each replica."""
    return x * tf.cast(ipu.replication_ops.replication_index() + 1, x.dtype)


def test_sums_and_means_over_replicas_and_over_groups_of_them():
    x = np.arange(4, dtype=np.float32)

    def compute(value):
        each = own(value)
        ops = ipu.cross_replica_ops
        return ops.cross_replica_sum(each), ops.cross_replica_mean(each), ops.cross_replica_sum(each, 2)

    total, mean, pair = run_once(compute, x)
    np.testing.assert_array_equal(total, 10 * x)  # 1 + 2 + 3 + 4
    np.testing.assert_array_equal(mean, 2.5 * x)
    np.testing.assert_array_equal(pair, 3 * x)  # of replicas 0 and 1, the first of which is shown


def test_gradients_go_back_through_every_exchange():
    x = np.arange(1, 5, dtype=np.float32)

    def compute(value):
        each = own(value)
        gathered = ipu.all_to_all_op.all_gather(each, 4)
        traded = ipu.all_to_all_op.all_to_all(each, 0, 0, 4)
        index = tf.cast(ipu.replication_ops.replication_index() + 1, tf.float32)
        weights = tf.constant([1.0, 10.0, 100.0, 1000.0])
        return (
            v1.gradients(ipu.cross_replica_ops.cross_replica_sum(each) * index, each)[0],
            v1.gradients(gathered * weights[:, None] * index, each)[0],
            v1.gradients(traded * weights * index, each)[0],
        )

    summed, gathered, traded = run_once(compute, x)
    np.testing.assert_array_equal(summed, [10.0] * 4)  # every replica's slope, 1 to 4, reaches each
    np.testing.assert_array_equal(gathered, [10.0] * 4)  # row 0 of all four, with weight 1
    np.testing.assert_array_equal(traded, [1.0, 2.0, 3.0, 4.0])  # one element went to each replica


def test_a_loop_carries_values_of_each_replica_through_one_program(steps):
    configure(2)
    with tf.Graph().as_default(), v1.Session() as session:
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def body(total):
            total = total + own(tf.ones([2]))
            joint = ipu.cross_replica_ops.cross_replica_sum(total)
            return total, outfeed.enqueue((total, joint))

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            made = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(3, body, [tf.zeros([2])]))
        dequeued = outfeed.dequeue()
        session.run(made)
        totals, joint = session.run(dequeued)
    np.testing.assert_array_equal(totals[:, :, 0], [[1, 2], [2, 4], [3, 6]])
    np.testing.assert_array_equal(joint[:, :, 0], [[3, 3], [6, 6], [9, 9]])
    assert [step.plan.options.device_iterations for step in steps] == [3]


def test_training_with_an_exchange_of_gradients_equals_one_device_with_all_data():
    data = np.random.default_rng(0).standard_normal((8, 4, 3)).astype(np.float32)

    def train(replicas, batch):
        configure(replicas)
        with tf.Graph().as_default(), v1.Session() as session:
            dataset = tf.data.Dataset.from_tensor_slices(data.reshape(-1, 3)).batch(batch, drop_remainder=True)
            infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)

            def body(x):
                weights = v1.get_variable("w", [3, 1], initializer=v1.ones_initializer())
                loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1))
                optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
                pairs = optimizer.compute_gradients(loss)
                if replicas > 1:
                    pairs = [(ipu.cross_replica_ops.cross_replica_mean(g), v) for g, v in pairs]
                return optimizer.apply_gradients(pairs)

            with ipu.scopes.ipu_scope("/device:IPU:0"):
                made = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(4, body, [], infeed))
            session.run([infeed.initializer, v1.global_variables_initializer()])
            session.run(made)
            return session.run(v1.trainable_variables())[0]

    np.testing.assert_allclose(train(4, 2), train(1, 8), rtol=1e-5)


def test_variables_that_are_not_reduced_part_and_those_of_the_first_replica_come_back():
    configure(2)
    with tf.Graph().as_default(), v1.Session() as session:

        def compute():
            weights = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
            loss = tf.reduce_sum(own(weights))
            train = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
            with tf.control_dependencies([train]):
                return ipu.cross_replica_ops.cross_replica_sum(weights.read_value())

        with ipu.scopes.ipu_scope("/device:IPU:0"):
            made = ipu.ipu_compiler.compile(compute)
        session.run(v1.global_variables_initializer())
        (total,) = session.run(made)
        held = session.run(v1.trainable_variables())[0]
    np.testing.assert_array_equal(total, [-3.0, -3.0])  # -1 on the first replica, -2 on the second
    np.testing.assert_array_equal(held, [-1.0, -1.0])


def test_a_wrong_group_or_share_is_refused():
    with pytest.raises(ValueError, match="replica_group_size must be a positive number"):
        ipu.cross_replica_ops.cross_replica_sum(tf.ones([2]), -1)
    with pytest.raises(ValueError, match="cannot share evenly"):
        ipu.all_to_all_op.all_to_all(tf.ones([3]), 0, 0, 2)
    with pytest.raises(ValueError, match="There is no reduction"):
        ipu.reduce_scatter_op.reduce_scatter(tf.ones([4]), 2, "COLLECTIVE_OP_NONE")


def test_eagerly_a_program_is_alone():
    np.testing.assert_array_equal(ipu.cross_replica_ops.cross_replica_sum(tf.ones([2])).numpy(), [1.0, 1.0])
    assert int(ipu.replication_ops.replication_index()) == 0


def test_groups_that_do_not_fit_the_replicas_are_refused_before_the_program_runs():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"group size \(got 3\) does not evenly divide"):
        run_once(lambda x: [ipu.cross_replica_ops.cross_replica_sum(x, 3)], np.ones(2, np.float32))


def test_a_share_of_a_reduction_has_a_size_also_where_sizes_are_objects():
    from tensorflow.python.framework import tensor_shape

    tensor_shape.disable_v2_tensorshape()
    try:
        with tf.Graph().as_default():
            made = ipu.reduce_scatter_op.reduce_scatter(tf.ones([5]), 2)
    finally:
        tensor_shape.enable_v2_tensorshape()
    assert made.shape.as_list() == [3]
