"""`xla.compile` of a computation whose ops are on an IPU is a program for it, wherever the scope stands."""

from __future__ import annotations

import numpy
import pytest
from tensorflow.python import ipu
from tensorflow.python.compiler.xla import xla

import tensorflow as tf
from openipu_tensorflow.contrib.compiler import xla as contrib_xla

v1 = tf.compat.v1
DOORS = {
    "tf.contrib.compiler.xla": contrib_xla,
    "tf.xla.experimental": tf.xla.experimental,
    "tf.compat.v1.xla.experimental": v1.xla.experimental,
    "tensorflow.python.compiler.xla.xla": xla,
}


@pytest.fixture
def graph():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Graph().as_default() as made:
        yield made
    ipu.config.reset_ipu_configuration()


@pytest.mark.parametrize("door", DOORS)
def test_a_scope_inside_of_the_computation_makes_it_a_program(graph, steps, door):
    x = v1.placeholder(tf.float32, [3])

    def computation(x):
        doubled = 2 * x  # on no device: still a part of it
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return tf.sin(doubled)

    (found,) = DOORS[door].compile(computation, [x])
    after = found + 1
    graph.finalize()
    with v1.Session() as session:
        values = session.run([found, after], {x: [0, 1, 2]})
    numpy.testing.assert_allclose(values[0], numpy.sin([0, 2, 4]), rtol=1e-5)
    numpy.testing.assert_allclose(values[1], values[0] + 1, rtol=1e-6)
    assert [step.name for step in steps] == ["computation"]


def test_a_scope_around_the_call_makes_it_a_program(graph, steps):
    x = v1.placeholder(tf.float32, [3])
    with tf.device("/device:IPU:0"):
        (found,) = xla.compile(tf.sin, [x])
    with v1.Session() as session:
        numpy.testing.assert_allclose(session.run(found, {x: [0, 1, 2]}), numpy.sin([0, 1, 2]), rtol=1e-6)
    assert len(steps) == 1


def train(x, device):
    """A step with loops inside of a loop, gradients in them, and an update that is written out."""
    with device:
        w = v1.get_variable("w", [3, 2], initializer=v1.constant_initializer(0.5), use_resource=True)
        size = v1.get_variable("size", [], initializer=v1.constant_initializer(0.1), use_resource=True, trainable=False)

        def energy(z):
            return tf.reduce_sum(tf.square(tf.matmul(z, w))) + tf.reduce_sum(tf.square(z))

        def leap(number, z, size):
            return [number + 1, z - size * tf.gradients(energy(z), [z])[0], size]

        def walk(number, z, size):
            _, z, _ = v1.while_loop(
                lambda number, z, size: number < 3,
                leap,
                [tf.constant(0), z, size],
                back_prop=False,
                maximum_iterations=2,
            )
            return [number + 1, z, size * 0.9]

        _, z, new_size = v1.while_loop(
            lambda number, z, size: number < 2,
            walk,
            [tf.constant(0), x, size],
            back_prop=False,
            maximum_iterations=2,
        )
        assigned = v1.assign(size, new_size)
        loss = energy(tf.stop_gradient(z))
        (gradient,) = tf.gradients(loss, [w])
        with tf.control_dependencies([v1.assign_sub(w, 0.05 * gradient)]):
            return [tf.identity(loss), z, assigned]


def run_steps(graph, results, x, rows):
    with v1.Session(graph=graph) as session:
        session.run(v1.global_variables_initializer())
        made = [session.run(results, {x: rows}) for _ in range(20)]
        return made, session.run(v1.global_variables())


def test_training_by_hand_equals_tensorflow(steps):
    rows = numpy.random.default_rng(3).normal(size=(4, 3)).astype("f")
    with tf.Graph().as_default() as plain:
        x = v1.placeholder(tf.float32, [4, 3])
        expected, expected_variables = run_steps(plain, train(x, tf.device("/device:CPU:0")), x, rows)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Graph().as_default() as compiled:
        x = v1.placeholder(tf.float32, [4, 3])
        results = contrib_xla.compile(lambda rows: train(rows, ipu.scopes.ipu_scope("/device:IPU:0")), [x])
        found, variables = run_steps(compiled, results, x, rows)
    ipu.config.reset_ipu_configuration()
    assert len(steps) == 1
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            numpy.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for one, other in zip(variables, expected_variables, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_computation_without_an_ipu_is_tensorflows_and_does_all_that_it_does(graph, steps):
    x = v1.placeholder(tf.float32, [2])
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), use_resource=True)

    def computation(x):
        return x + 1, x * 2, count.assign_add(1.0, read_value=False)

    found = xla.compile(computation, [x])
    done = xla.compile(lambda: count.assign_add(10.0, read_value=False))
    with v1.Session() as session:
        session.run(count.initializer)
        numpy.testing.assert_array_equal(session.run(found[0], {x: [1, 2]}), [2, 3])
        assert session.run(count) == 1.0  # it acts with any of its results
        numpy.testing.assert_array_equal(session.run(found, {x: [1, 2]}), [[2, 3], [2, 4]])
        session.run(done)
        assert session.run(count) == 12.0
    assert not steps


def test_results_keep_their_structure(graph):
    x = v1.placeholder(tf.float32, [2])

    def computation(x):
        with ipu.scopes.ipu_scope("/device:IPU:0"):
            return {"sum": tf.reduce_sum(x), "rows": [x + 1, x + 2]}

    made = xla.compile(computation, [x])
    plain = xla.compile(lambda x: {"sum": tf.reduce_sum(x), "rows": [x + 1, x + 2]}, [x])
    with v1.Session() as session:
        found, expected = session.run([made, plain], {x: [1, 2]})
    assert found["sum"] == expected["sum"] == 3
    numpy.testing.assert_array_equal(found["rows"], expected["rows"])


@pytest.mark.parametrize("device", ["/device:IPU:0", "/device:CPU:0"])
def test_a_computation_that_returns_nothing_does_all_that_it_does(graph, steps, device):
    """Variables that are made inside keep their values: what gives them the first ones is no part of it."""
    x = v1.placeholder(tf.float32, [2])

    def computation(x):
        total = v1.get_variable("total", [2], initializer=v1.zeros_initializer(), use_resource=True)
        total.assign_add(x, read_value=False)

    with tf.device(device):
        done = xla.compile(computation, [x])
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert [session.run(done, {x: [1, 2]}) for _ in range(3)] == [None] * 3
        numpy.testing.assert_array_equal(session.run(v1.global_variables())[0], [3, 6])
    assert len(steps) == ("IPU" in device)


def test_a_pipeline_that_nobody_returns_runs(graph):
    data = tf.data.Dataset.from_tensor_slices(numpy.arange(8, dtype="f")[:, None]).batch(1, drop_remainder=True)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data.repeat())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def computation():
        ipu.pipelining_ops.pipeline(
            [lambda x: x + 1, lambda x: x * 2],
            gradient_accumulation_count=4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            device_mapping=[0, 0],
        )

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        done = ipu.ipu_compiler.compile(computation)
    results = outfeed.dequeue()
    with v1.Session() as session:
        session.run(infeed.initializer)
        session.run(done)
        found = session.run(results)
    numpy.testing.assert_array_equal(found.flatten(), [2, 4, 6, 8])


def test_a_loop_of_an_ipu_on_no_ipu_is_refused(graph):
    with pytest.raises(Exception, match="not placed on an IPU device"):
        contrib_xla.compile(lambda: ipu.loops.repeat(2, lambda x: x + 1, [tf.constant(0.0)]))


def test_functions_of_tensorflow_2_are_left_to_it():
    (found,) = tf.xla.experimental.compile(lambda x: x + 1, [tf.constant([1.0, 2.0])])
    numpy.testing.assert_array_equal(found.numpy(), [2, 3])
