"""`tf.layers.batch_normalization`, which TensorFlow no longer has, against its formula and in a program."""

from __future__ import annotations

import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1
RNG = numpy.random.default_rng(0)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    ipu.config.reset_ipu_configuration()


@pytest.mark.parametrize(("shape", "axis"), [((4, 3, 3, 2), -1), ((4, 2, 3, 3), 1), ((6, 2), -1), ((6, 5, 2), 2)])
def test_a_batch_norm_takes_out_mean_and_deviation_and_its_updates_are_in_the_collection(shape, axis):
    images = RNG.normal(2.0, 3.0, size=shape).astype("f")
    x = v1.placeholder(tf.float32, shape)
    result = v1.layers.batch_normalization(x, axis=axis, training=True, momentum=0.9, name="norm")
    others = tuple(place for place in range(len(shape)) if place != axis % len(shape))
    mean, variance = images.mean(others, keepdims=True), images.var(others, keepdims=True)
    count = images.size // 2
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        found, _ = session.run([result, v1.get_collection(v1.GraphKeys.UPDATE_OPS)], {x: images})
        held = {variable.op.name: session.run(variable) for variable in v1.global_variables()}
    numpy.testing.assert_allclose(found, (images - mean) / numpy.sqrt(variance + 1e-3), rtol=1e-4, atol=1e-5)
    assert sorted(held) == ["norm/beta", "norm/gamma", "norm/moving_mean", "norm/moving_variance"]
    numpy.testing.assert_allclose(held["norm/moving_mean"], 0.1 * mean.ravel(), rtol=1e-4)
    numpy.testing.assert_allclose(  # the variance of all data that these are a sample of
        held["norm/moving_variance"], 0.9 + 0.1 * variance.ravel() * count / (count - 1), rtol=1e-4
    )
    assert len(v1.trainable_variables()) == 2


def test_a_half_batch_norm_uses_its_moving_statistics_on_an_ipu():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    images = RNG.normal(size=(2, 4, 4, 3)).astype("float16")
    x = v1.placeholder(tf.float16, images.shape)

    def net(x):
        return v1.layers.batch_normalization(x, scale=False, trainable=False, epsilon=1.0)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        (result,) = ipu.ipu_compiler.compile(net, [x])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        found = session.run(result, {x: images})
    assert found.dtype == numpy.float16
    numpy.testing.assert_allclose(found, images / numpy.sqrt(2), rtol=2e-3)  # variance 1, and epsilon


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"renorm": True}, "renorm is not supported"), ({"axis": 1}, "it is to be the last one, or 1 of 4")],
)
def test_what_it_does_not_do_is_refused(settings, message):
    with pytest.raises(NotImplementedError, match=message):
        v1.layers.batch_normalization(v1.placeholder(tf.float32, [2, 3, 4]), **settings)
