"""Options of pipelines, scopes and queues of TF1 programs: each reaches the plan, or has its reason in the table."""

from __future__ import annotations

import inspect

import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf
from openipu.graph import note_of
from openipu_tensorflow.ipu.configuration.effects import PROGRAM_EFFECTS

v1 = tf.compat.v1
pipelining = ipu.pipelining_ops
RNG = numpy.random.default_rng(2)
DATA = RNG.normal(size=(16, 4)).astype("f")


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield
    ipu.config.reset_ipu_configuration()


def list_names():
    """Every argument and scope that a program of TensorFlow 1 can give."""
    for owner in (
        pipelining.pipeline,
        pipelining.PipelineStageOptions,
        ipu.ipu_infeed_queue.IPUInfeedQueue,
        ipu.ipu_outfeed_queue.IPUOutfeedQueue,
    ):
        for name, entry in inspect.signature(owner).parameters.items():
            if entry.kind is not inspect.Parameter.VAR_KEYWORD:  # older names, with a warning
                yield f"{owner.__name__}.{name}"
    for name, entry in vars(ipu.scopes).items():
        if inspect.isfunction(entry) and not name.startswith("_"):
            yield f"scopes.{name}"
    yield from ("pipelining_ops.recomputation_checkpoint", "loops.use_while_v1")


def test_every_argument_of_pipelines_stages_scopes_and_queues_acts_or_has_a_reason():
    assert set(list_names()) == set(PROGRAM_EFFECTS)
    assert all(text.startswith(("acts: ", "no effect: ")) for text in PROGRAM_EFFECTS.values())


def dense(name, x, size):
    init = v1.constant_initializer(numpy.linspace(-0.5, 0.5, x.shape[1] * size).reshape(x.shape[1], size))
    with v1.variable_scope(name, use_resource=True):
        return tf.tanh(tf.matmul(x, v1.get_variable("w", [x.shape[1], size], dtype=x.dtype, initializer=init)))


def train(count=4, checkpoint=lambda x: x, first=dense, ipus=2, **options):
    """One pipeline of two stages over all data; the weights after it."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = True
    config.configure_ipu_system()
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(DATA).batch(2, drop_remainder=True))

    def begin(x):
        return dense("second", checkpoint(first("first", x, 5)), 6)

    def end(x):
        return tf.reduce_mean(tf.square(dense("third", x, 2)))

    def optimize(loss):
        return pipelining.OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(0.1), loss)

    def net():
        return pipelining.pipeline(
            [begin, end],
            count,
            infeed_queue=queue,
            outfeed_queue=ipu.ipu_outfeed_queue.IPUOutfeedQueue(),
            optimizer_function=optimize,
            **options,
        )

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        done = ipu.ipu_compiler.compile(net)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(queue.initializer)
        session.run(done)
        return session.run(v1.trainable_variables())


def list_checkpoints(step):
    nodes = step.compiled.program.micro.module.graph.nodes
    return [node for node in nodes if note_of(node).attributes.get("checkpoint")]


@pytest.mark.parametrize(
    ("mode", "kept"),
    [("RecomputeAndBackpropagateInterleaved", 1), ("RecomputeThenBackpropagate", 0), ("Auto", 0)],
)
def test_a_checkpoint_is_kept_where_recomputation_is_interleaved(steps, mode, kept):
    """In a pipeline that overlaps, Auto makes all of a stage again before its backward."""
    train(checkpoint=pipelining.recomputation_checkpoint, recomputation_mode=pipelining.RecomputationMode[mode])
    (step,) = steps
    assert [str(node.target) for node in list_checkpoints(step)] == ["aten.tanh.default"] * kept


def test_a_checkpoint_saves_the_ops_before_it_from_being_made_again(steps):
    mode = pipelining.RecomputationMode.RecomputeAndBackpropagateInterleaved
    plain = train(recomputation_mode=mode)
    with tf.Graph().as_default():
        marked = train(checkpoint=pipelining.recomputation_checkpoint, recomputation_mode=mode)
    without, with_mark = (step.plan for step in steps)
    # The first product and its tanh run forward only, not once more for backward.
    assert len(with_mark.ops) == len(without.ops) - 2
    for mine, theirs in zip(marked, plain, strict=True):
        numpy.testing.assert_array_equal(mine, theirs)


def test_auto_keeps_checkpoints_of_a_sequential_pipeline(steps):
    train(
        checkpoint=pipelining.recomputation_checkpoint,
        pipeline_schedule=pipelining.PipelineSchedule.Sequential,
    )
    assert len(list_checkpoints(steps[0])) == 1


def test_batch_serialization_takes_as_many_micro_batches_more_for_an_update():
    options = {"pipeline_schedule": pipelining.PipelineSchedule.Sequential, "device_mapping": [0, 0], "ipus": 1}
    wanted = train(count=8, **options)
    with tf.Graph().as_default():
        found = train(count=2, batch_serialization_iterations=4, **options)
    for mine, theirs in zip(found, wanted, strict=True):
        numpy.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("library", ["matmul_options", "convolution_options"])
def test_half_partials_of_a_stage_count_for_the_program(steps, library):
    stages = [pipelining.PipelineStageOptions(), pipelining.PipelineStageOptions(**{library: {"partialsType": "half"}})]
    train(forward_propagation_stages_poplar_options=stages)
    assert steps[0].plan.options.half_partials


def test_proportions_of_stages_are_those_of_their_ipus(steps):
    forward = [pipelining.PipelineStageOptions(matmul_options={"availableMemoryProportion": "0.3"})] * 2
    backward = [
        pipelining.PipelineStageOptions(),
        pipelining.PipelineStageOptions(convolution_options={"availableMemoryProportion": "0.2"}),
    ]
    train(
        forward_propagation_stages_poplar_options=forward,
        backward_propagation_stages_poplar_options=backward,
    )
    assert steps[0].plan.options.memory_proportions == ((0, 0.3), (1, 0.2))
    assert not steps[0].plan.options.half_partials


@pytest.mark.parametrize(
    ("library", "given", "message"),
    [
        ("matmul_options", {"availableMemoryProporton": "0.3"}, r"\[1\].matmul_options has .* Did you mean 'available"),
        ("convolution_options", {"partialsType": "double"}, r"\[1\].convolution_options: partialsType is 'double'"),
        ("slice_options", {"usedForSLICEs": "true"}, r"\[1\].slice_options has .* Did you mean 'usedForSLICE'"),
        ("matmul_options", {"availableMemoryProportion": "2"}, "a number from 0 to 1"),
    ],
)
def test_wrong_options_of_a_stage_are_refused_by_stage_and_name(library, given, message):
    stages = [pipelining.PipelineStageOptions(), pipelining.PipelineStageOptions(**{library: given})]
    with pytest.raises(ValueError, match=message):
        train(forward_propagation_stages_poplar_options=stages)
    wrong = pipelining.PipelineStageOptions(**{library: given})
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message.removeprefix(r"\[1\]")):
        train(weight_update_poplar_options=wrong)


def compute(net, *values):
    with tf.device("cpu"):
        given = [v1.placeholder(value.dtype, value.shape) for value in values]
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        found = ipu.ipu_compiler.compile(net, given)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(found, dict(zip(given, values, strict=True)))


@pytest.mark.parametrize(("kind", "half"), [(tf.float16, True), (tf.float32, False)])
def test_a_scope_of_partials_counts_for_the_program(steps, kind, half):
    def net(x, y):
        with ipu.scopes.partials_type(kind):
            return tf.matmul(x, y)

    compute(net, numpy.ones([2, 3], "e"), numpy.ones([3, 2], "e"))
    assert steps[0].plan.options.half_partials is half


def test_ops_outside_the_compilation_are_calls_of_the_host(steps):
    def net(x):
        inside = tf.sin(x)
        with ipu.scopes.outside_compilation_scope():
            outside = tf.cos(inside) + tf.constant(2.0)
        return tf.tanh(outside)

    (found,) = compute(net, DATA)
    numpy.testing.assert_allclose(found, numpy.tanh(numpy.cos(numpy.sin(DATA)) + 2), rtol=1e-6)
    names = [str(node.target) for node in steps[0].compiled.program.micro.module.graph.nodes]
    assert [name for name in names if name.startswith(("aten.", "openipu."))] == [
        "aten.sin.default",
        "openipu.Cos",  # by the name of TensorFlow's op
        "openipu.AddV2",
        "aten.tanh.default",
    ]


def test_an_op_without_a_rule_runs_in_the_graph_of_a_script():
    (found,) = compute(lambda x: tf.math.zeta(tf.abs(x) + 2.0, 1.0) * 2.0, DATA)
    with v1.Session() as session:
        wanted = session.run(tf.math.zeta(tf.abs(DATA) + 2.0, 1.0) * 2.0)
    numpy.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_outside_the_compilation_a_variable_is_still_the_device_s():
    def net(x):
        with ipu.scopes.outside_compilation_scope():
            return x * v1.get_variable("w", initializer=[1.0, 2.0, 3.0, 4.0], use_resource=True)

    (found,) = compute(net, DATA)
    numpy.testing.assert_allclose(found, DATA * [1, 2, 3, 4], rtol=1e-6)
