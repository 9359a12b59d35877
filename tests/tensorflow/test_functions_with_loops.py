"""`strategy.run` of functions with loops and pipelines of the device, captured gradients, and saved models."""

from __future__ import annotations

import numpy
import pytest
from keras_help import make_strategy
from tensorflow.python import ipu
from tensorflow.python.ipu.eager.backprop import GradientCaptureContext, GradientCaptureTape
from tensorflow.python.ipu.ops.grad_util_ops import capture_upstream_gradients

import tensorflow as tf


def test_a_repeat_inside_a_function_carries_values_and_takes_from_its_infeed():
    strategy = make_strategy()
    with strategy.scope():
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.range(1, 7).map(lambda x: tf.cast(x, tf.float32)))
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        scale = tf.Variable(2.0)

    def body(total, x):
        total = total + scale * x
        return total, outfeed.enqueue({"total": total})

    @tf.function(jit_compile=True)
    def add(start):
        return ipu.loops.repeat(3, body, [start], infeed)

    assert strategy.run(add, [numpy.float32(1.0)]).numpy() == 1.0 + 2 * (1 + 2 + 3)
    assert strategy.run(add, [numpy.float32(0.0)]).numpy() == 2 * (4 + 5 + 6)
    assert [entry["total"].numpy() for entry in outfeed] == [3.0, 7.0, 13.0, 8.0, 18.0, 30.0]


@pytest.mark.parametrize("sums", [True, False])
def test_a_pipeline_inside_a_function_updates_variables_and_hands_out_captured_gradients(sums):
    strategy = make_strategy(2)
    with strategy.scope():
        x, optimizer = tf.Variable(3.0), tf.keras.optimizers.SGD(0.01)
        losses, captured = ipu.ipu_outfeed_queue.IPUOutfeedQueue(), ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def first():
        return capture_upstream_gradients(x * x, tag="square")

    @tf.function
    def train():
        with GradientCaptureContext() as context:
            ipu.pipelining_ops.pipeline(
                [first, lambda y: 2.0 * y],
                4,
                optimizer_function=lambda loss: ipu.pipelining_ops.OptimizerFunctionOutput(
                    optimizer,
                    loss,
                    variables=[x],
                    gradient_capture_context=context,
                    captured_gradient_outfeed=captured,
                ),
                outfeed_queue=losses,
                gradient_accumulation_for_captured_grads=sums,
            )

    strategy.run(train)
    numpy.testing.assert_array_equal(numpy.ravel(losses.dequeue()), [18.0] * 4)
    numpy.testing.assert_array_equal(numpy.ravel(captured.dequeue()["square"]), [8.0] if sums else [2.0] * 4)
    assert x.numpy() == pytest.approx(3.0 - 0.01 * 4 * 12.0)


def test_a_tape_captures_gradients_and_a_plain_one_is_refused():
    strategy = make_strategy()

    @tf.function
    def capture(x):
        with GradientCaptureTape() as tape:
            tape.watch(x)
            y = tf.tanh(capture_upstream_gradients(x * x, tag="tanh"))
        return tape.gradient(y, x), tape.captured_gradients

    gradient, captured = strategy.run(capture, [tf.constant(0.5)])
    expected = 1.0 - numpy.tanh(0.25) ** 2
    assert captured["tanh"].numpy() == pytest.approx(expected, rel=1e-6)
    assert gradient.numpy() == pytest.approx(expected, rel=1e-6)

    @tf.function
    def fail(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = capture_upstream_gradients(x, tag="lost")
        return tape.gradient(y, x)

    with pytest.raises(RuntimeError, match="may only be used within the context of"):
        strategy.run(fail, [tf.constant(0.5)])


def test_a_saved_model_is_loaded_and_run_on_a_device(tmp_path):
    w = tf.Variable([1.0, 2.0, 3.0])
    spec = tf.TensorSpec([3], tf.float32)

    def first(scale, x, y):
        return scale * x + y * w

    run = ipu.serving.export_pipeline(
        [first, lambda z: (z, tf.reduce_sum(z))],
        tmp_path,
        iterations=16,
        inputs=[10.0],
        device_mapping=[0, 0],
        predict_step_signature=[spec, spec],
        output_names=["each", "total"],
    )
    x, y = numpy.arange(3, dtype=numpy.float32), numpy.ones(3, numpy.float32)
    strategy = make_strategy()
    loaded = tf.saved_model.load(str(tmp_path))
    found = strategy.run(loaded.signatures["serving_default"], kwargs={"y": y, "x": x})
    numpy.testing.assert_array_equal(found["each"], [1.0, 12.0, 23.0])
    assert found["total"].numpy() == 36.0
    numpy.testing.assert_array_equal(strategy.run(run, [x, y])[0], [1.0, 12.0, 23.0])
    with pytest.raises(ValueError, match="is not empty"):
        ipu.serving.export_single_step(lambda x: x, tmp_path, 16, [spec])


def test_a_label_of_no_class_gives_nan_in_loss_and_gradient_alone():
    strategy = make_strategy()

    @tf.function
    def loss(scores):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 50, -1], logits=scores)
        return each, tape.gradient(each, scores)

    each, gradient = strategy.run(loss, [tf.zeros([3, 4])])
    numpy.testing.assert_allclose(each, [numpy.log(4.0), numpy.nan, numpy.nan], rtol=1e-6)
    numpy.testing.assert_allclose(gradient, [[0.25, -0.75, 0.25, 0.25], [numpy.nan] * 4, [numpy.nan] * 4], rtol=1e-6)


def test_a_benchmark_of_data_counts_every_element():
    import json

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = tf.data.Dataset.range(4).repeat()
        text = session.run(ipu.dataset_benchmark.dataset_benchmark(dataset, 2, 5))[0]
    epochs = json.loads(text)["epochs"]
    assert [(entry["elements_processed"], entry["total_bytes_processed"]) for entry in epochs] == [(5, 40), (5, 40)]


def test_values_that_a_loop_carries_are_each_replicas_own():
    strategy = make_strategy(2)
    queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function
    def count(start):
        total = start
        for _ in tf.range(3):
            queue.enqueue(total)
            total *= 2
        return total

    assert strategy.run(count, [tf.constant(1)]).numpy() == 8
    numpy.testing.assert_array_equal(queue.dequeue(), [[1, 1], [2, 2], [4, 4]])


def test_a_variable_that_a_function_only_writes_is_written():
    strategy = make_strategy()
    with strategy.scope():
        count, total = tf.Variable(1), tf.Variable(0.0)

    @tf.function
    def step(x):
        count.assign_add(2, read_value=False)
        total.assign_add(x)
        return total * 1.0

    assert strategy.run(step, [tf.constant(3.0)]).numpy() == 3.0
    assert strategy.run(step, [tf.constant(3.0)]).numpy() == 6.0
    assert (count.numpy(), total.numpy()) == (5, 6.0)
    assert len(strategy.distribute_datasets_from_function(lambda context: tf.data.Dataset.range(4))) == 4
