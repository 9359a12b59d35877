"""TF1 programs on an IPU: compiled computations, loops, feeds. The same graph in a plain session is what is right."""

from __future__ import annotations

import threading

import keras
import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        v1.set_random_seed(0)
        yield
    ipu.config.reset_ipu_configuration()


def configure(count=1):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = count
    config.configure_ipu_system()


def compile_on_ipu(function, inputs=()):
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        return ipu.ipu_compiler.compile(function, list(inputs))


def make_queue(values, batch=None, repeat=True):
    dataset = tf.data.Dataset.from_tensor_slices(values)
    dataset = dataset.batch(batch, drop_remainder=True) if batch else dataset
    return ipu.ipu_infeed_queue.IPUInfeedQueue(dataset.repeat() if repeat else dataset)


def test_the_first_program_of_the_workshop():
    with v1.device("cpu"):
        pa, pb, pc = (v1.placeholder(numpy.float32, [2], name=name) for name in "abc")

    def basic_graph(pa, pb, pc):
        return pa + pb + (pa + pc)

    result = compile_on_ipu(basic_graph, [pa, pb, pc])
    with v1.Session() as session:
        (found,) = session.run(result, {pa: [1.0, 1.0], pb: [0.0, 1.0], pc: [1.0, 5.0]})
    numpy.testing.assert_array_equal(found, [3.0, 8.0])


def test_sizes_that_the_graph_leaves_open_are_those_of_what_is_fed():
    """As the original, which compiles for the shapes of a run; the last batch of a data set may be smaller."""
    configure()
    with v1.device("cpu"):
        rows, factors = v1.placeholder(numpy.float32, [None, 3]), v1.placeholder(numpy.float32, [None, 1])

    def scale(rows, factors):
        count = tf.cast(tf.shape(rows)[0], tf.float32)
        return rows * factors, tf.reduce_sum(tf.reshape(rows, [tf.shape(rows)[0], -1])) / count

    result = compile_on_ipu(scale, [rows, factors])
    with v1.Session() as session:
        for count in (4, 2, 4):
            given = numpy.arange(3 * count, dtype="f").reshape(count, 3)
            scaled, mean = session.run(result, {rows: given, factors: numpy.full([count, 1], 2.0, "f")})
            numpy.testing.assert_array_equal(scaled, 2 * given)
            assert mean == given.sum() / count


def test_a_call_of_a_session_takes_one_element_of_an_iterator():
    """Two computations and the host need it: all of them get the same, as from any session."""
    configure()
    data = tf.data.Dataset.from_tensor_slices((numpy.arange(6, dtype="f"), numpy.arange(6, dtype="i"))).batch(2)
    iterator = v1.data.make_initializable_iterator(data)
    numbers, labels = iterator.get_next()
    doubled = compile_on_ipu(lambda given: 2 * given, [numbers])
    moved = compile_on_ipu(lambda given: given + 1, [tf.cast(labels, tf.float32)])
    with v1.Session() as session:
        session.run(iterator.initializer)
        for first in (0, 2, 4):
            found = session.run([doubled, moved, labels])
            numpy.testing.assert_array_equal(
                numpy.concatenate(found[0] + found[1]), [*(2 * first, 2 * first + 2), *(first + 1, first + 2)]
            )
            numpy.testing.assert_array_equal(found[2], [first, first + 1])
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run([doubled, moved, labels])


def test_a_training_step_equals_the_same_step_in_a_plain_session():
    rng = numpy.random.default_rng(0)
    images, labels = rng.normal(size=(8, 12)).astype("f"), rng.integers(0, 3, size=8).astype("i")

    def losses(place):
        with tf.Graph().as_default():
            v1.set_random_seed(3)
            x, y = v1.placeholder(tf.float32, [8, 12]), v1.placeholder(tf.int32, [8])

            def net(x, y):
                init = v1.glorot_uniform_initializer(seed=1)
                w = v1.get_variable("w", [12, 16], initializer=init)
                v = v1.get_variable("v", [16, 3], initializer=v1.glorot_uniform_initializer(seed=2))
                logits = tf.matmul(tf.nn.relu(tf.matmul(x, w)), v)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
                train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
                with v1.control_dependencies([train]):
                    return tf.identity(loss)

            step = compile_on_ipu(net, [x, y])[0] if place else net(x, y)
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                seen = [session.run(step, {x: images, y: labels}) for _ in range(20)]
                return numpy.array(seen), session.run(v1.trainable_variables())

    on_ipu, on_host = losses(True), losses(False)
    numpy.testing.assert_allclose(on_ipu[0], on_host[0], rtol=1e-5)
    for mine, theirs in zip(on_ipu[1], on_host[1], strict=True):
        numpy.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("norm", "kind"),
    [(keras.layers.BatchNormalization, "FusedBatchNormV3"), (keras.layers.LayerNormalization, "PyFuncStateless")],
)
def test_norms_of_keras_are_one_op_in_a_program_and_train_as_in_a_plain_session(norm, kind):
    images = numpy.random.default_rng(0).normal(size=(8, 6, 6, 1)).astype("f")

    def losses(place):
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, images.shape)
            first = keras.layers.Conv2D(4, 3, kernel_initializer=keras.initializers.GlorotUniform(1))
            second = norm()

            def net(x):
                loss = tf.reduce_mean(tf.square(second(first(x), training=True) - tf.range(4.0)))
                train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
                with v1.control_dependencies([train]):
                    return tf.identity(loss)

            step = compile_on_ipu(net, [x])[0] if place else net(x)
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                seen = [session.run(step, {x: images}) for _ in range(5)]
                return {op.type for op in graph.get_operations()}, seen

    (kinds, found), (_, wanted) = losses(True), losses(False)
    assert kind in kinds
    numpy.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_loop_is_one_program_of_so_many_device_iterations(steps):
    queue = make_queue(numpy.arange(10, dtype="f"))
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(total, x):
        return total + x, out.enqueue(total)

    result = compile_on_ipu(lambda: ipu.loops.repeat(7, body, [0.0], queue))
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(queue.initializer)
        assert session.run(result) == [21.0]  # 0 + 1 + … + 6
        # what is carried goes out as it was before the round: 0, 0, 1, 3, 6, 10, 15
        numpy.testing.assert_array_equal(session.run(dequeue), [0, 0, 1, 3, 6, 10, 15])
        assert session.run(result) == [7 + 8 + 9 + 0 + 1 + 2 + 3]
    assert [step.plan.options.device_iterations for step in steps] == [7]


def test_a_view_of_a_variable_goes_out_as_it_was_before_the_round():
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body():
        w = v1.get_variable("w", initializer=[1.0, 2.0])
        return out.enqueue(tf.reshape(w, [2, 1])), w.assign_add([1.0, 1.0], read_value=False)

    done = compile_on_ipu(lambda: ipu.loops.repeat(2, body))
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(done)
        numpy.testing.assert_array_equal(session.run(dequeue)[:, :, 0], [[1, 2], [2, 3]])
        numpy.testing.assert_array_equal(session.run(v1.trainable_variables())[0], [3, 4])


@pytest.mark.parametrize("mode", ["ALL", "LAST"])
def test_an_outfeed_gives_all_values_or_the_last_in_the_nest_that_was_enqueued(mode):
    queue = make_queue(numpy.arange(6, dtype="f").reshape(3, 2))
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode[mode])

    def body(x):
        return out.enqueue({"twice": 2 * x, "sum": tf.reduce_sum(x)})

    done = compile_on_ipu(lambda: ipu.loops.repeat(3, body, [], queue))
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(done)
        found = session.run(dequeue)
    if mode == "ALL":
        numpy.testing.assert_array_equal(found["twice"], [[0, 2], [4, 6], [8, 10]])
        numpy.testing.assert_array_equal(found["sum"], [1, 5, 9])
    else:
        numpy.testing.assert_array_equal(found["twice"], [8, 10])
        assert found["sum"] == 9


def test_loops_inside_loops_and_loops_with_a_condition():
    def inner(total):
        return total + 1.0

    def body(number, total):
        return number + 1, ipu.loops.repeat(3, inner, [total]) * 2.0

    def net():
        return ipu.loops.while_loop(lambda number, total: number < 4, body, [0, 0.0])

    result = compile_on_ipu(net)
    with v1.Session() as session:
        assert session.run(result) == [4, 90.0]  # t -> 2 (t + 3), four times: 6, 18, 42, 90


def test_the_number_of_rounds_may_be_fed():
    rounds = v1.placeholder(tf.int32, [])
    result = compile_on_ipu(lambda n: ipu.loops.repeat(n, lambda t: t * 2.0, [1.0]), [rounds])
    with v1.Session() as session:
        assert [session.run(result, {rounds: n})[0] for n in (0, 1, 10)] == [1.0, 2.0, 1024.0]


def test_an_outfeed_can_be_read_from_another_thread_while_the_program_runs():
    queue = make_queue(numpy.arange(50, dtype="f"))
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    done = compile_on_ipu(lambda: ipu.loops.repeat(50, out.enqueue, [], queue))
    dequeue = out.dequeue()
    seen, failed = [], []
    with v1.Session() as session:

        def read():
            try:
                while len(seen) < 50:
                    seen.extend(session.run(dequeue).tolist())
            except Exception as error:
                failed.append(error)

        session.run(queue.initializer)
        thread = threading.Thread(target=read)
        thread.start()
        session.run(done)
        thread.join(timeout=60)
    assert not failed
    assert seen == list(range(50))


def test_a_data_set_that_ends_early_is_an_error_and_not_a_wait():
    queue = make_queue(numpy.arange(3, dtype="f"), repeat=False)
    result = compile_on_ipu(lambda: ipu.loops.repeat(5, lambda t, x: t + x, [0.0], queue))
    with v1.Session() as session:
        session.run(queue.initializer)
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            session.run(result)


def test_feeds_that_were_not_begun_or_have_open_shapes_are_refused():
    queue = make_queue(numpy.arange(3, dtype="f"))
    result = compile_on_ipu(lambda: ipu.loops.repeat(2, lambda t, x: t + x, [0.0], queue))
    with v1.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="initializer"):
        session.run(result)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.range(4).batch(3))
    with pytest.raises(ValueError, match="not been enqueued"):
        ipu.ipu_outfeed_queue.IPUOutfeedQueue().dequeue()


def test_bodies_that_do_not_fit_their_loop_are_refused():
    def trace(body, inputs):
        return compile_on_ipu(lambda: ipu.loops.repeat(2, body, inputs))

    with pytest.raises(TypeError, match="cannot be called with the specified inputs"):
        trace(lambda a, b: a, [1.0])
    with pytest.raises(TypeError, match="data types"):
        trace(lambda a: tf.cast(a, tf.int32), [1.0])
    with pytest.raises(ValueError, match="carries 1"):
        trace(lambda a: (a, a), [1.0])
    with pytest.raises(RuntimeError, match="outside a compilation"):
        ipu.loops.repeat(2, lambda a: a, [1.0])


def test_a_computation_must_be_on_an_ipu():
    with v1.device("cpu"), pytest.raises(Exception, match="not placed on an IPU"):
        ipu.ipu_compiler.compile(lambda: tf.constant(1.0) + 1.0)


def test_a_computation_without_tensors_is_an_operation():
    done = compile_on_ipu(lambda: v1.get_variable("w", initializer=1.0).assign(5.0, read_value=False))
    assert isinstance(done, tf.Operation)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(done)
        assert session.run(v1.global_variables()) == [5.0]


def test_made_up_data_need_no_data_set_and_leave_outfeeds_empty(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data --synthetic_data_initializer=3")
    queue = make_queue(numpy.arange(3, dtype="f"), repeat=False)
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    result = compile_on_ipu(lambda: ipu.loops.repeat(5, lambda t, x: (t + x, out.enqueue(t)), [0.0], queue))
    dequeue = out.dequeue()
    with v1.Session() as session:
        assert session.run(result) == [15.0]  # 5 times 3
        assert session.run(dequeue).shape == (0,)


def test_a_program_that_never_connects_cannot_run():
    config = ipu.config.IPUConfig()
    config.device_connection.type = ipu.config.DeviceConnectionType.NEVER
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    result = compile_on_ipu(lambda: v1.get_variable("w", initializer=1.0) * 2.0)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="NEVER"):
            session.run(result)


def test_a_program_that_is_only_compiled_gives_zeros():
    config = ipu.config.IPUConfig()
    config.device_connection.type = ipu.config.DeviceConnectionType.PRE_COMPILE
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    result = compile_on_ipu(lambda: v1.get_variable("w", initializer=1.0) * 2.0)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(result) == [0.0]
