"""The door: graphs of TensorFlow through openipu's engine, against TensorFlow itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import tensorflow as tf
from openipu.errors import InputError, TranslationError
from openipu.graph import Phase, RunOptions, note_of
from openipu_tensorflow.engine import compile_step, mark_gradients

v1 = tf.compat.v1


def trace(function, *examples):
    """The graph of a function."""
    specs = [tf.TensorSpec(np.shape(value), np.asarray(value).dtype) for value in examples]
    return tf.function(function).get_concrete_function(*specs).graph


def run(function, *examples):
    """What a function returns, by way of openipu's engine."""
    graph = trace(function, *examples)
    step = compile_step(graph, inputs=graph.inputs[: len(examples)], outputs=graph.outputs)
    return step.run(examples)


def draw(*sizes):
    return np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(np.float32)


def test_a_plain_computation_gives_what_tensorflow_gives():
    x, w = draw(4, 3), draw(3, 2)
    (found,) = run(lambda x, w: tf.nn.softmax(tf.nn.relu(x @ w) + 1), x, w)
    assert_allclose(found, tf.nn.softmax(tf.nn.relu(x @ w) + 1), rtol=1e-6)


def test_a_loop_is_written_out_and_a_branch_is_taken_by_the_data():
    def function(x):
        def go_on(i, x):
            return i + 1, x * 2 + tf.cast(i, tf.float32)

        _, x = tf.while_loop(lambda i, x: i < 3, go_on, [tf.constant(0), x])
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x)

    for x in (np.ones((2, 3), np.float32), -np.ones((2, 3), np.float32) * 5):
        (found,) = run(function, x)
        assert_allclose(found, function(tf.constant(x)), rtol=1e-6)


def test_a_loop_that_the_data_ends_goes_on_for_as_long_as_it_says():
    def function(x):
        return tf.while_loop(lambda i, x: tf.reduce_sum(x) < 100, lambda i, x: (i + 1, x * 2), [0, x])

    graph = trace(function, np.ones(2, np.float32))
    step = compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs)
    for x in (np.ones(2, np.float32), np.full(2, 3, np.float32), np.full(2, 300, np.float32)):
        for found, expected in zip(step.run([x]), function(tf.constant(x)), strict=True):
            assert_allclose(found, expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_variables_are_written_inside_loops_branches_and_functions(sign):
    total, factor = tf.Variable([1.0, 2.0], name="total"), tf.Variable(3.0, name="factor")

    @tf.function
    def take(x):
        total.assign_sub(x)
        return total * 2

    @tf.function
    def function(x):
        for i in tf.range(3):
            total.assign_add(x * tf.cast(i, tf.float32))
        if tf.reduce_sum(x) > 0:
            total.assign(x * factor)
        else:
            factor.assign(5.0)
        for _ in tf.range(2):
            x = x + take(x)
        return x * factor

    graph = function.get_concrete_function(tf.TensorSpec((2,))).graph
    step = compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs[:1], targets=graph.control_outputs)
    step.load({"total": total.numpy(), "factor": factor.numpy()})
    x = np.array([sign, 2 * sign], np.float32)
    assert_allclose(step.run([x])[0], function(tf.constant(x)))
    assert_allclose(step.read()["total"], total.numpy())
    assert_allclose(step.read()["factor"], factor.numpy())


def test_an_op_without_a_rule_is_computed_by_tensorflow():
    x = draw(5, 5)
    (found,) = run(lambda x: tf.linalg.det(x + 5 * tf.eye(5)) + 1, x)
    assert_allclose(found, tf.linalg.det(x + 5 * tf.eye(5)) + 1, rtol=1e-5)


def test_variables_are_loaded_written_and_read():
    total = tf.Variable(np.zeros((2,), np.float32), name="total")
    count = tf.Variable(0, name="count", dtype=tf.int64)

    @tf.function
    def function(x):
        total.assign_add(x)
        count.assign_add(1)
        return total * 2

    graph = function.get_concrete_function(tf.TensorSpec((2,))).graph
    step = compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs[:1], targets=graph.control_outputs)
    with pytest.raises(InputError, match="has no value of it"):
        step.run([np.ones(2, np.float32)])
    step.load({"total": total.numpy(), "count": count.numpy()})
    assert_allclose(step.run([np.array([1, 2], np.float32)])[0], [2, 4])
    assert_allclose(step.run([np.array([1, 2], np.float32)])[0], [4, 8])
    new = step.read()
    assert_allclose(new["total"], [2, 4])
    assert new["count"] == 2
    assert new["count"].dtype == np.int64


class Regression:
    """A small training step in TensorFlow 1."""

    def __init__(self, make_optimizer):
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(1)
            self.x = v1.placeholder(tf.float32, [4, 3], name="x")
            self.y = v1.placeholder(tf.float32, [4, 1], name="y")
            hidden = tf.tanh(self.x @ v1.get_variable("first", [3, 5], use_resource=True))
            guess = hidden @ v1.get_variable("second", [5, 1], use_resource=True)
            self.loss = tf.reduce_mean(tf.square(guess - self.y))
            self.train = make_optimizer().minimize(self.loss)
            self.variables = v1.global_variables()
            self.initialise = v1.global_variables_initializer()

    def compile(self, **options):
        given = RunOptions(training=True, **options)
        return compile_step(
            self.graph, inputs=[self.x, self.y], outputs=[self.loss], targets=[self.train], options=given
        )

    def read(self, session):
        return {variable.op.name: session.run(variable) for variable in self.variables}


OPTIMIZERS = {
    "descent": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: v1.train.AdamOptimizer(0.1),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(0.5),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.05, momentum=0.5),
    "centered": lambda: v1.train.RMSPropOptimizer(0.05, centered=True),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_of_tensorflow_1_is_cut_and_gives_the_same_weights_and_state(name):
    model = Regression(OPTIMIZERS[name])
    step = model.compile()
    assert step.entangled == ""
    assert step.compiled.program.update is not None
    x, y = draw(4, 3), draw(4, 1)
    with v1.Session(graph=model.graph) as session:
        session.run(model.initialise)
        step.load(model.read(session))
        for _ in range(5):
            expected, _ = session.run([model.loss, model.train], {model.x: x, model.y: y})
            assert_allclose(step.run([x, y])[0], expected, rtol=1e-5)
        found, expected = step.read(), model.read(session)
    for key, value in found.items():
        assert_allclose(value, expected[key], rtol=1e-4, atol=1e-6, err_msg=key)


def test_accumulation_and_replication_equal_one_step_on_the_whole_batch():
    model = Regression(OPTIMIZERS["adam"])
    x, y = draw(16, 3), draw(16, 1)
    whole = {}
    for micro_batches in ({"gradient_accumulation": 4}, {"gradient_accumulation": 2, "replicas": 2}):
        step = model.compile(**micro_batches)
        with v1.Session(graph=model.graph) as session:
            v1.set_random_seed(1)
            session.run(model.initialise)
            start = model.read(session)
            step.load(start)
            losses = step.run([x, y])[0]
            assert losses.shape == (4,)
            assert_allclose(
                losses,
                [session.run(model.loss, {model.x: x[i : i + 4], model.y: y[i : i + 4]}) for i in (0, 4, 8, 12)],
                rtol=1e-5,
            )
        whole[str(micro_batches)] = (start, step.read())
        assert step.read()["beta1_power"] == pytest.approx(0.9**2)  # one update, whatever the number of micro-batches
    for start, found in whole.values():
        inputs = tf.constant(x)
        with tf.GradientTape() as tape:
            first, second = tf.constant(start["first"]), tf.constant(start["second"])
            tape.watch([first, second])
            loss = tf.reduce_mean(tf.square(tf.tanh(inputs @ first) @ second - y))
        for name, gradient in zip(("first", "second"), tape.gradient(loss, [first, second]), strict=True):
            assert_allclose(found[name + "/Adam"], 0.1 * gradient, rtol=1e-4, atol=1e-7)


def test_several_iterations_are_several_updates():
    model = Regression(OPTIMIZERS["momentum"])
    step = model.compile(device_iterations=3)
    x, y = draw(12, 3), draw(12, 1)
    with v1.Session(graph=model.graph) as session:
        session.run(model.initialise)
        step.load(model.read(session))
        expected = [
            session.run([model.loss, model.train], {model.x: x[i : i + 4], model.y: y[i : i + 4]})[0] for i in (0, 4, 8)
        ]
        assert_allclose(step.run([x, y])[0], expected, rtol=1e-5)
        assert_allclose(step.read()["first"], model.read(session)["first"], rtol=1e-5)


def test_notes_say_layer_phase_and_ipu_of_each_op():
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [2, 3])
        weight = v1.get_variable("weight", [3, 3], use_resource=True)
        with graph._attr_scope({"_ipu_shard": tf.compat.v1.AttrValue(i=1)}), tf.name_scope("layer"):
            loss = tf.reduce_sum(tf.tanh(x @ weight))
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    step = compile_step(graph, inputs=[x], outputs=[loss], targets=[train], options=RunOptions(training=True))
    micro = [note_of(node) for node in step.compiled.program.micro.module.graph.nodes if node.op == "call_function"]
    forward = [note for note in micro if note.phase is Phase.FORWARD and note.module]
    assert {note.module for note in forward} == {"layer"}
    assert {note.ipu for note in forward} == {1}
    assert {note.module for note in micro if note.phase is Phase.BACKWARD} >= {"layer"}
    update = [node for node in step.compiled.program.update.module.graph.nodes if node.op == "call_function"]
    assert {note_of(node).phase for node in update} == {Phase.UPDATE}


def test_a_step_whose_update_needs_the_data_runs_as_one_and_says_why_it_cannot_accumulate():
    weight = tf.Variable([1.0, 2.0], name="weight")

    @tf.function
    def function(x):
        loss = tf.reduce_sum(weight * x)
        (gradient,) = mark_gradients([x + weight * 0], [weight])
        weight.assign_sub(gradient * loss)  # a learning rate that depends on the data
        return loss

    graph = function.get_concrete_function(tf.TensorSpec((2,))).graph
    settings = {"inputs": graph.inputs[:1], "outputs": graph.outputs[:1], "targets": graph.control_outputs}
    step = compile_step(graph, **settings, options=RunOptions(training=True))
    assert "'x:0'" in step.entangled
    step.load({"weight": [1.0, 2.0]})
    assert_allclose(step.run([np.ones(2, np.float32)])[0], 3)
    assert_allclose(step.read()["weight"], [-2, -1])
    with pytest.raises(TranslationError, match="cannot be accumulated"):
        compile_step(graph, **settings, options=RunOptions(training=True, gradient_accumulation=2))


def test_carried_values_go_from_one_micro_batch_to_the_next():
    graph = trace(lambda total, x: total * 0.5 + x, np.zeros(2, np.float32), np.zeros(2, np.float32))
    total, x = graph.inputs[:2]
    settings = {"inputs": [x], "carried": [(total, graph.outputs[0])]}
    step = compile_step(graph, **settings, options=RunOptions(device_iterations=3))
    data = np.arange(6, dtype=np.float32)
    (last,) = step.run([data], carried=[np.array([8, 8], np.float32)])
    expected = np.array([8, 8], np.float32)
    for row in data.reshape(3, 2):
        expected = expected * 0.5 + row
    assert_allclose(last, expected)


def test_a_source_is_asked_while_the_run_goes_on():
    class Numbers:
        def __init__(self):
            self.asked = []

        def take(self, first, count):
            self.asked.append((first, count))
            return [np.arange(2 * first, 2 * (first + count), dtype=np.float32)]

    graph = trace(lambda x: tf.reduce_sum(x), np.zeros(2, np.float32))
    options = RunOptions(device_iterations=3, batching=False)
    step = compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs, options=options)
    source = Numbers()
    assert_allclose(step.run(source)[0], [1, 5, 9])
    assert source.asked == [(0, 1), (1, 1), (2, 1)]


def test_scalars_of_each_micro_batch_are_told_apart():
    graph = trace(lambda x: x * 2, np.float32(0))
    step = compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs, options=RunOptions(device_iterations=3))
    assert_allclose(step.run([np.array([1, 2, 3], np.float32)])[0], [2, 4, 6])


@pytest.mark.parametrize("shape", [(None, 3), None])
def test_an_open_shape_is_refused_with_what_to_do(shape):
    graph = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec(shape)).graph
    with pytest.raises(TranslationError, match="drop_remainder=True"):
        compile_step(graph, inputs=graph.inputs[:1], outputs=graph.outputs)
