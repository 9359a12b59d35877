"""Ops that a TF1 script puts on an IPU device without `ipu_compiler.compile` run as programs, too."""

from __future__ import annotations

import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    ipu.config.reset_ipu_configuration()


def configure(count=1, **floating):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = count
    for name, value in floating.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()


def test_ops_on_the_device_are_one_program_and_those_of_the_host_are_not(steps):
    configure()
    x = v1.placeholder(tf.float32, [3])
    with tf.device("/device:IPU:0"):
        y = tf.sin(x) * 2
    shifted = y + 1
    with v1.Session() as session:
        values = session.run([y, shifted], {x: [0, 1, 2]})
    numpy.testing.assert_allclose(values[0], 2 * numpy.sin([0, 1, 2]), rtol=1e-6)
    numpy.testing.assert_allclose(values[1], values[0] + 1, rtol=1e-6)
    assert len(steps) == 1


def test_a_program_before_and_one_after_ops_of_the_host(steps):
    configure()
    x = v1.placeholder(tf.float32, [3])
    with tf.device("/device:IPU:0"):
        y = tf.exp(x)
    text = tf.strings.as_string(y)
    back = tf.ensure_shape(tf.strings.to_number(text), [3])
    with tf.device("/device:IPU:0"):
        z = tf.sqrt(back)
    with v1.Session() as session:
        found = session.run({"z": z, "text": text}, {x: [0, 2, 4]})
        again = session.run({"z": z, "text": text}, {x: [0, 2, 4]})
    numpy.testing.assert_allclose(found["z"], numpy.exp([0, 1, 2]), rtol=1e-5)
    numpy.testing.assert_array_equal(found["z"], again["z"])
    assert len(steps) == 2  # and none for the second call


def test_training_changes_the_variables_of_the_session_once(steps):
    configure()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        x = v1.placeholder(tf.float32, [4, 3])
        w = v1.get_variable("w", [3, 2], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
        train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
    data = numpy.arange(12, dtype="f").reshape(4, 3) / 10
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert not steps  # initial values are made on the host
        first, _ = session.run([loss, train], {x: data})
        held = session.run(w)
        session.run(train, {x: data})
        after = session.run(w)
    start = numpy.ones((3, 2), "f")
    numpy.testing.assert_allclose(first, numpy.sum((data @ start) ** 2), rtol=1e-5)
    expected = start - 0.01 * 2 * data.T @ data @ start
    numpy.testing.assert_allclose(held, expected, rtol=1e-5)
    numpy.testing.assert_allclose(after, expected - 0.01 * 2 * data.T @ data @ expected, rtol=1e-5)


def test_the_mean_of_half_numbers_does_not_overflow_on_its_way():
    configure(inv=True, div0=True, oflo=True, nanoo=True, esr=ipu.config.StochasticRoundingBehaviour.ON)
    with tf.device("/device:IPU:0"):
        x = v1.placeholder(tf.float16, [2, 10000])
        mean = tf.reduce_mean(x, axis=[1])
    value = numpy.finfo(numpy.float16).max / 2
    with v1.Session() as session:
        found = session.run(mean, {x: numpy.full([2, 10000], value)})
    numpy.testing.assert_allclose(found, [value, value], rtol=1e-3)


def test_replicas_of_ops_on_the_device_meet_in_collectives():
    configure(2)
    with tf.device("/device:IPU:0"):
        x = v1.placeholder(tf.float32, [2])
        total = ipu.cross_replica_ops.cross_replica_sum(x * 2)
    with v1.Session() as session:
        numpy.testing.assert_array_equal(session.run(total, {x: [1, 2]}), [4, 8])


def test_random_numbers_of_a_given_seed_are_those_of_the_seed():
    configure()
    with tf.device("/device:IPU:0"):
        seed = v1.placeholder(tf.int32, [2])
        drawn = tf.random.stateless_normal([5], seed) * 2
    with v1.Session() as session:
        first, again, other = (session.run(drawn, {seed: value}) for value in ([1, 2], [1, 2], [2, 1]))
    numpy.testing.assert_array_equal(first, again)
    assert not numpy.array_equal(first, other)


def test_unknown_shapes_and_plain_reads_stay_with_tensorflow(steps):
    configure()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        x = v1.placeholder(tf.float32, [None])
        y = tf.sin(x)
        w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        numpy.testing.assert_allclose(session.run(y, {x: [0, 1]}), numpy.sin([0, 1]), rtol=1e-6)
        numpy.testing.assert_array_equal(session.run(w), [1, 1, 1])
    assert not steps


def test_ops_on_a_device_that_is_not_configured_stay_with_tensorflow(steps):
    configure(2)  # one device of two IPUs
    with tf.device("/device:IPU:1"):
        y = tf.sin(v1.placeholder_with_default([1.0], [1])) + 1
    with v1.Session() as session:
        numpy.testing.assert_allclose(session.run(y), numpy.sin([1]) + 1, rtol=1e-6)
    assert not steps
