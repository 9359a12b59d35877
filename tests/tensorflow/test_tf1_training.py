"""Accumulation, replicas and pipelines of TF1 programs equal one device with the same global batch."""

from __future__ import annotations

import keras
import numpy
import pytest
from tensorflow.python import ipu, tf2

import tensorflow as tf

v1 = tf.compat.v1
RNG = numpy.random.default_rng(1)
IMAGES = RNG.normal(size=(24, 4)).astype("f")
LABELS = RNG.normal(size=(24, 2)).astype("f")


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    ipu.config.reset_ipu_configuration()


def configure(count):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = count
    config.configure_ipu_system()


def layer(name, x, size):
    init = v1.constant_initializer(numpy.linspace(-0.5, 0.5, x.shape[1] * size).reshape(x.shape[1], size))
    with v1.variable_scope(name, use_resource=True):
        return tf.tanh(tf.matmul(x, v1.get_variable("w", [x.shape[1], size], initializer=init)))


def find_loss(x, y):
    return tf.reduce_mean(tf.square(layer("second", layer("first", x, 5), 2) - y))


def train_on_host(batch, steps, rate=0.1):
    """Plain steps of SGD over batches in order."""
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, [batch, 4]), v1.placeholder(tf.float32, [batch, 2])
        train = v1.train.GradientDescentOptimizer(rate).minimize(find_loss(x, y))
        session.run(v1.global_variables_initializer())
        for step in range(steps):
            rows = slice(step * batch, (step + 1) * batch)
            session.run(train, {x: IMAGES[rows], y: LABELS[rows]})
        return session.run(v1.trainable_variables())


def train_on_ipu(batch, rounds, make_optimizer):
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(batch, drop_remainder=True)
    )
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x, y):
        loss = find_loss(x, y)
        train = make_optimizer(v1.train.GradientDescentOptimizer(0.1)).minimize(loss)
        return out.enqueue(loss), train

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        done = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(rounds, body, [], queue))
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(queue.initializer)
        session.run(done)
        return session.run(v1.trainable_variables()), session.run(dequeue)


def assert_equal(found, wanted):
    for mine, theirs in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["MEAN", "RUNNING_MEAN"])
def test_accumulated_gradients_are_those_of_the_larger_batch(method):
    def wrap(optimizer):
        return ipu.optimizers.GradientAccumulationOptimizerV2(optimizer, 4, reduction_method=method)

    found, losses = train_on_ipu(2, 12, wrap)
    assert losses.shape == (12,)
    assert_equal(found, train_on_host(8, 3))


def test_a_sum_of_gradients_is_the_mean_times_their_number():
    found, _ = train_on_ipu(2, 12, lambda optimizer: ipu.optimizers.GradientAccumulationOptimizer(optimizer, 4))
    assert_equal(found, train_on_host(8, 3, rate=0.4))


def test_rounds_that_end_between_two_updates_are_refused():
    with pytest.raises(tf.errors.FailedPreconditionError, match="multiple of 4"):
        train_on_ipu(2, 10, lambda optimizer: ipu.optimizers.GradientAccumulationOptimizerV2(optimizer, 4))


def test_replicas_take_an_element_each_and_share_the_mean_of_their_gradients():
    configure(2)
    found, losses = train_on_ipu(4, 3, ipu.optimizers.CrossReplicaOptimizer)
    assert losses.shape == (3, 2)  # rounds, replicas
    assert_equal(found, train_on_host(8, 3))


def test_replicas_and_accumulation_together():
    configure(2)

    def wrap(optimizer):
        return ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2(optimizer, 3, reduction_method="mean")

    found, losses = train_on_ipu(2, 6, wrap)
    assert losses.shape == (6, 2)
    assert_equal(found, train_on_host(12, 2))


def test_without_a_reduction_the_first_replica_is_as_one_device_with_its_share_of_the_data():
    configure(2)
    found, losses = train_on_ipu(4, 3, lambda optimizer: optimizer)
    assert losses.shape == (3, 2)
    with v1.Session() as session:  # batches 0, 2, 4
        x, y = v1.placeholder(tf.float32, [4, 4]), v1.placeholder(tf.float32, [4, 2])
        with v1.variable_scope("alone"):
            train = v1.train.GradientDescentOptimizer(0.1).minimize(find_loss(x, y))
        session.run(v1.global_variables_initializer())
        for first in (0, 8, 16):
            session.run(train, {x: IMAGES[first : first + 4], y: LABELS[first : first + 4]})
        assert_equal(found, session.run(v1.trainable_variables("alone")))


def test_accumulation_of_variables_that_part_is_refused():
    configure(2)
    with pytest.raises(NotImplementedError, match="CrossReplicaOptimizer"):
        train_on_ipu(4, 2, lambda optimizer: ipu.optimizers.GradientAccumulationOptimizerV2(optimizer, 2))


@pytest.mark.parametrize("accumulation", [1, 4])
def test_an_optimizer_of_keras_gives_an_op_that_a_loop_runs(accumulation):
    configure(1)
    data = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(6, drop_remainder=True)
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    optimizer = keras.optimizers.SGD(0.1)
    if accumulation > 1:
        optimizer = keras.ipu.optimizers.GradientAccumulationOptimizer(optimizer, accumulation, reduction_method="mean")

    def body(total, x, y):
        loss = find_loss(x, y)
        variables = v1.trainable_variables()
        train = optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables, strict=True))
        return total + loss, train

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        (total,) = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(4, body, [0.0], queue))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(queue.initializer)
        assert session.run(total) > 0
        found = session.run(v1.trainable_variables())
    assert_equal(found, train_on_host(6 * accumulation, 4 // accumulation))


def test_gradients_can_be_mapped():
    found, _ = train_on_ipu(8, 3, lambda opt: ipu.optimizers.MapGradientOptimizer(opt, lambda g, v: 0.5 * g))
    assert_equal(found, train_on_host(8, 3, rate=0.05))


def test_collectives_see_the_values_of_all_replicas():
    configure(4)
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def net():
        index = tf.cast(ipu.replication_ops.replication_index(), tf.float32)
        total = ipu.cross_replica_ops.cross_replica_sum(index)
        pairs = ipu.cross_replica_ops.cross_replica_mean(index, replica_group_size=2)
        return out.enqueue((index, total, pairs))

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        done = ipu.ipu_compiler.compile(net)
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(done)
        index, total, pairs = session.run(dequeue)
    numpy.testing.assert_array_equal(index, [[0, 1, 2, 3]])
    numpy.testing.assert_array_equal(total, [[6, 6, 6, 6]])
    numpy.testing.assert_array_equal(pairs, [[0.5, 0.5, 2.5, 2.5]])


def run_pipeline(schedule, ipus=2, wrap=lambda optimizer: optimizer, **options):
    configure(ipus)
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(
        tf.data.Dataset.from_tensor_slices((IMAGES, LABELS)).batch(2, drop_remainder=True)
    )
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def optimize(loss):
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        if ipus > 2:
            optimizer = ipu.optimizers.CrossReplicaOptimizer(optimizer)
        return ipu.pipelining_ops.OptimizerFunctionOutput(wrap(optimizer), loss)

    stages = [
        lambda x, y: (layer("first", x, 5), y),
        lambda h, y: tf.reduce_mean(tf.square(layer("second", h, 2) - y)),
    ]

    def net():
        return ipu.pipelining_ops.pipeline(
            stages,
            gradient_accumulation_count=12 // int(options.get("repeat_count", 1)) // (ipus // 2),
            infeed_queue=queue,
            outfeed_queue=options.pop("outfeed_queue", out),
            optimizer_function=optimize,
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule[schedule],
            reduction_method="mean",
            **options,
        )

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        done = ipu.ipu_compiler.compile(net)
    dequeue = out.dequeue()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(queue.initializer)
        session.run(done)
        return session.run(v1.trainable_variables()), session.run(dequeue)


@pytest.mark.parametrize("schedule", ["Grouped", "Interleaved", "Sequential"])
def test_every_schedule_of_a_pipeline_gives_the_update_of_the_whole_batch(schedule):
    found, losses = run_pipeline(schedule, repeat_count=4 / 2)
    assert numpy.shape(losses) == (1, 12)  # one tensor, 2 times 6 micro-batches
    assert_equal(found, train_on_host(12, 2))


def test_stages_of_a_pipeline_are_on_their_ipus_in_the_plan(steps):
    run_pipeline("Grouped")
    (plan,) = (step.plan for step in steps)
    assert plan.ipus == 2
    assert plan.pipeline is not None
    assert {op.ipu for op in plan.ops} == {0, 1}


def test_a_stage_on_all_ipus_is_on_none_of_them_and_computes_the_same(steps):
    found, _ = run_pipeline("Grouped", device_mapping=[-1, 1])
    assert_equal(found, train_on_host(24, 1))
    assert steps[0].plan.ipus == 2


def test_ops_of_all_shards_leave_the_shard_around_them():
    with ipu.scopes.ipu_shard(1), ipu.scopes.ipu_shard(-1):
        op = tf.sin(v1.placeholder(tf.float32, [2])).op
    assert ipu.sharding.get_sharding(op) == [-1]
    with pytest.raises(ValueError, match="or -1 for all"), ipu.scopes.ipu_shard(-2):
        pass


def test_a_replicated_pipeline_shares_its_gradients():
    found, losses = run_pipeline("Grouped", ipus=4)
    assert numpy.shape(losses) == (1, 6, 2)
    assert_equal(found, train_on_host(24, 1))


def test_accumulated_outfeeds_come_once_for_each_update():
    _, losses = run_pipeline("Grouped", outfeed_loss=True, accumulate_outfeed=True, repeat_count=2)
    assert losses.shape == (2,)


class HandingOut(v1.train.Optimizer):
    """Hands out the gradients that it applies, before it does so."""

    def __init__(self, inner, queue):
        super().__init__(False, "HandingOut")
        self._inner, self._queue = inner, queue

    def compute_gradients(self, *args, **kwargs):
        return self._inner.compute_gradients(*args, **kwargs)

    def apply_gradients(self, pairs, *args, **kwargs):
        with tf.control_dependencies([self._queue.enqueue([gradient for gradient, _ in pairs])]):
            return self._inner.apply_gradients(pairs, *args, **kwargs)


def test_gradients_that_an_optimizer_hands_out_are_the_accumulated_ones_once_for_each_update():
    queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    found, _ = run_pipeline("Grouped", wrap=lambda inner: HandingOut(inner, queue), repeat_count=2)
    assert_equal(found, train_on_host(12, 2))
    with v1.Session() as session:
        first, second = session.run(queue.dequeue())
    starts, after = train_on_host(12, 0), train_on_host(12, 1)
    assert first.shape == (2, 4, 5)
    for handed, start, end, last in zip((first, second), starts, after, found, strict=True):
        assert_equal(handed, [(start - end) / 0.1, (end - last) / 0.1])  # what SGD took from each variable


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"device_mapping": 3}, TypeError, "device_mapping argument needs to be a list or a tuple"),
        ({"device_mapping": [0]}, ValueError, "Each stage must be mapped to an IPU"),
        ({"continuous_weight_updates": True}, NotImplementedError, "Continuous weight updates"),
        ({"recomputation_mode": "fast"}, TypeError, "RecomputationMode"),
        ({"weight_update_poplar_options": {}}, TypeError, "PipelineStageOptions"),
        ({"outfeed_queue": None, "outfeed_mask": [False]}, ValueError, "no outfeed_queue has been provided"),
        ({"outfeed_loss": True, "outfeed_mask": [True]}, ValueError, "Only one of `outfeed_loss` and `outfeed_mask`"),
    ],
)
def test_wrong_options_of_a_pipeline_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        run_pipeline("Grouped", **change)


def test_gradients_by_a_tape_are_in_the_shard_of_the_op_they_are_of_whatever_scope_asks_for_them():
    found = {}

    def body(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            with ipu.scopes.ipu_shard(0):
                hidden = x * 5
            with ipu.scopes.ipu_shard(3):
                loss = tf.reduce_sum(hidden**2)
            with ipu.scopes.ipu_shard(2):
                gradients = tape.gradient(loss, [x, hidden])
                found["beside"] = tf.identity(x)
        found["x"], found["hidden"] = gradients
        return gradients[0]

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        ipu.ipu_compiler.compile(body, [v1.placeholder(tf.float32, [4])])
    shards = {name: ipu.sharding.get_sharding(tensor.op) for name, tensor in found.items()}
    assert shards == {"beside": [2], "x": [0], "hidden": [3]}


def test_gradients_by_a_tape_of_ops_in_no_shard_stay_in_none():
    found = []

    def body(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.tanh(x))
        found.append(tape.gradient(loss, x))
        return found

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        ipu.ipu_compiler.compile(body, [v1.placeholder(tf.float32, [4])])
    assert ipu.sharding.get_sharding(found[0].op) is None


def test_variables_cannot_be_given_after_a_tape():
    loss = tf.square(v1.placeholder(tf.float32, []))
    output = ipu.pipelining_ops.OptimizerFunctionOutput(tf.keras.optimizers.SGD(), loss, tape=tf.GradientTape())
    with pytest.raises(ValueError, match="variables must be empty when"):
        output.variables = [1]
    assert output.variables == []


@pytest.mark.parametrize(("first", "expected"), [(True, tf.float16), (False, tf.float32)])
def test_a_layer_takes_the_type_of_a_half_input_in_programs_of_tensorflow_1_alone(monkeypatch, first, expected):
    monkeypatch.setattr(tf2, "enabled", lambda: not first)
    assert tf.keras.layers.Dense(2)(v1.placeholder(tf.float16, [3, 4])).dtype == expected
    assert tf.keras.layers.Dense(2)(v1.placeholder(tf.float32, [3, 4])).dtype == tf.float32


def test_layers_without_weights_follow_their_inputs_and_batch_norms_keep_float_weights(monkeypatch):
    monkeypatch.setattr(tf2, "enabled", lambda: False)
    half, full = v1.placeholder(tf.float16, [2, 4, 4, 3]), v1.placeholder(tf.float32, [2, 4, 4, 3])
    layers = tf.keras.layers
    for layer in (layers.Activation("relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.5)):
        assert [layer(x).dtype for x in (full, half, full)] == [tf.float32, tf.float16, tf.float32]
    norm = layers.BatchNormalization()
    assert norm(half).dtype == tf.float16
    assert {weight.dtype for weight in norm.weights} == {"float32"}
    asked = layers.Activation("relu", dtype="float64")
    assert asked(half).dtype == tf.float64
