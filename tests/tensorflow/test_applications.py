"""Functions as files: compiled by `application_compile_op`, started and called by `embedded_runtime`."""

from __future__ import annotations

import zipfile

import numpy
import pytest
from tensorflow.compiler.plugin.poplar.ops import gen_application_runtime as raw
from tensorflow.python import ipu
from tensorflow.python.ipu import embedded_runtime
from tensorflow.python.ipu.ops.application_compile_op import experimental_application_compile_op

import tensorflow as tf
from openipu.errors import ArchiveError

v1 = tf.compat.v1
ROWS = numpy.arange(6, dtype="f").reshape(2, 3)
START = numpy.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "f")


@pytest.fixture(autouse=True)
def _configure():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.device_connection.type = ipu.config.DeviceConnectionType.NEVER  # a file is compiled, and nothing runs
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    yield
    ipu.config.reset_ipu_configuration()


def make_queues():
    data = tf.data.Dataset.from_tensor_slices(numpy.zeros((4, 2, 3), "f"))
    return ipu.ipu_infeed_queue.IPUInfeedQueue(data), ipu.ipu_outfeed_queue.IPUOutfeedQueue()


def write_in_graph(path, freeze, build=None):
    """In the style of TensorFlow 1; the variable has been changed before the file is written."""
    with tf.Graph().as_default(), v1.Session() as session:
        queue, out = make_queues()

        def body(x):
            weights = v1.get_variable("weights", initializer=numpy.zeros_like(START), use_resource=True)
            return out.enqueue((tf.matmul(x, weights), tf.reduce_sum(x)))

        build = build or (lambda: ipu.loops.repeat(4, body, [], queue))
        found = experimental_application_compile_op(build, output_path=path, freeze_variables=freeze)
        assert found.dtype == tf.string
        session.run(v1.global_variables_initializer())
        for variable in v1.global_variables():
            variable.load(START, session)
        return session.run(found).decode()


def test_a_file_with_its_variables_computes_for_each_call(tmp_path):
    path = write_in_graph(tmp_path / "frozen", True)
    assert path == str(tmp_path / "frozen")
    context = embedded_runtime.embedded_runtime_start(path, [], "frozen")
    signature = context.signature()
    counts = [len(part) for part in (signature.inputs, signature.streamed_inputs, signature.streamed_outputs)]
    assert counts == [0, 1, 2]
    for rows in (ROWS, ROWS + 1):
        product, total = embedded_runtime.embedded_runtime_call([tf.constant(rows)], context)
        numpy.testing.assert_allclose(product, rows @ START)
        assert float(total) == rows.sum()


def test_variables_that_are_not_in_the_file_are_given_when_it_starts_and_a_session_calls_it(tmp_path):
    path = write_in_graph(tmp_path / "open", False)
    with tf.Graph().as_default(), v1.Session() as session:
        rows, weights = v1.placeholder(tf.float32, [2, 3]), v1.placeholder(tf.float32, [3, 2])
        (product, _), context = embedded_runtime.embedded_runtime_start_and_call(
            path, {"weights": weights}, [rows], "open"
        )
        assert product.shape == [2, 2]
        found = session.run(product, {rows: ROWS, weights: 2 * START})
    numpy.testing.assert_allclose(found, ROWS @ START * 2)
    assert context.output_types() == [tf.float32, tf.float32]


@pytest.mark.parametrize("freeze", [False, True])
def test_a_function_of_tensorflow_2_becomes_a_file_where_it_stands(freeze):
    weights = tf.Variable(START)
    queue, out = make_queues()

    @tf.function
    def run():
        out.enqueue(tf.matmul(queue._dequeue(), weights))

    path = experimental_application_compile_op(run, freeze_variables=freeze)
    context = embedded_runtime.embedded_runtime_start(path, [] if freeze else [weights], "function")
    (found,) = embedded_runtime.embedded_runtime_call([ROWS], context)
    numpy.testing.assert_allclose(found, ROWS @ START)


def test_a_pipeline_becomes_a_file_of_its_stages(tmp_path):
    def stage(name, value):
        start = numpy.eye(3, dtype="f") if name == "first" else START
        return tf.matmul(value, v1.get_variable(name, initializer=numpy.zeros_like(start), use_resource=True))

    with tf.Graph().as_default(), v1.Session() as session:
        queue, out = make_queues()

        def build():
            return ipu.pipelining_ops.pipeline(
                [lambda x: stage("first", x), lambda x: stage("second", x)],
                gradient_accumulation_count=4,
                infeed_queue=queue,
                outfeed_queue=out,
            )

        found = experimental_application_compile_op(build, output_path=tmp_path / "pipeline")
        session.run(v1.global_variables_initializer())
        path = session.run(found)
    given = {"first": numpy.eye(3, dtype="f") * 3, "second": START}
    context = embedded_runtime.embedded_runtime_start(path.decode(), given, "pipeline")
    (product,) = embedded_runtime.embedded_runtime_call([ROWS], context)
    numpy.testing.assert_allclose(product, 3 * ROWS @ START)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([], Exception, "call expects 1 inputs, but 0 were provided"),
        ([ROWS.T], Exception, r"Mismatched input shape at position 0 .*Expected \[2, 3\]"),
        ([ROWS.astype("i")], TypeError, "Mismatched input dtype at position 0 .*Expected <dtype: 'float32'>"),
    ],
)
def test_calls_that_do_not_fit_the_signature_are_refused(tmp_path, value, error, message):
    path = write_in_graph(tmp_path / "frozen", True)
    context = embedded_runtime.embedded_runtime_start(path, [], "frozen")
    with pytest.raises(error, match=message):
        embedded_runtime.embedded_runtime_call(value, context)
    with pytest.raises(NotImplementedError, match="doesn't support stopping"):
        embedded_runtime.embedded_runtime_stop(context)


def test_the_raw_ops_start_and_call_as_well(tmp_path):
    path = write_in_graph(tmp_path / "open", False)
    anchor = raw.application_runtime(inputs=(START,), filename=tf.constant(path), engine_name="raw")
    call = {"anchor": anchor, "outfeed_types": [tf.float32, tf.float32], "engine_name": "raw"}
    product, total = raw.application_call((ROWS,), **call)
    numpy.testing.assert_allclose(product, ROWS @ START)
    assert float(total) == ROWS.sum()
    with pytest.raises(ValueError, match="its anchor has started 'raw'"):
        raw.application_call((ROWS,), **{**call, "engine_name": "other"})
    with pytest.raises(TypeError, match="the application returns"):
        raw.application_call((ROWS,), **{**call, "outfeed_types": [tf.float32]})


def test_starts_that_do_not_fit_the_signature_are_refused(tmp_path):
    path = write_in_graph(tmp_path / "open", False)
    with pytest.raises(Exception, match="runtime expects 1 inputs, but 0 were provided"):
        embedded_runtime.embedded_runtime_start(path, [], "open")
    with pytest.raises(Exception, match="Failed to find input tensor with name 'XLA_Args/weights'"):
        embedded_runtime.embedded_runtime_start(path, {"other": START}, "open")
    with pytest.raises(Exception, match=r"shape at position 0 \('XLA_Args/weights'\)"):
        embedded_runtime.embedded_runtime_start(path, {"XLA_Args/weights": START.T}, "open")
    with pytest.raises(ArchiveError, match="There is no file"):
        embedded_runtime.embedded_runtime_start(path + "x", [], "open")


def test_what_a_loop_carries_cannot_be_in_a_file():
    with pytest.raises(NotImplementedError, match="its loop carries"):
        write_in_graph(None, False, lambda: ipu.loops.repeat(2, lambda total: total + 1.0, [0.0]))


def test_a_damaged_file_is_refused(tmp_path):
    path = write_in_graph(tmp_path / "frozen", True)
    with zipfile.ZipFile(path) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    assert b'"float32"' in parts["metadata.json"]
    changes = {
        "metadata.json": parts["metadata.json"].replace(b'"weights"', b'"others"'),
        "program.json": parts["program.json"][:-9],
        "program.bin": None,
    }
    for name, content in changes.items():
        with zipfile.ZipFile(tmp_path / "damaged", "w") as made:
            for part, kept in parts.items():
                if part != name or content is not None:
                    made.writestr(part, kept if part != name else content)
        with pytest.raises(ArchiveError):
            embedded_runtime.embedded_runtime_start(str(tmp_path / "damaged"), [], "damaged")


def test_a_file_computes_as_the_device_that_it_was_compiled_for(tmp_path):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = ipu.config.DeviceConnectionType.NEVER
    config.device_connection.version = "ipu2"
    config.floating_point_behaviour.div0 = True
    config.configure_ipu_system()
    with tf.Graph().as_default(), v1.Session() as session:
        queue, out = make_queues()
        build = experimental_application_compile_op(
            lambda: ipu.loops.repeat(4, lambda x: out.enqueue(12.0 / x), [], queue), output_path=tmp_path / "divides"
        )
        path = session.run(build).decode()
    ipu.config.reset_ipu_configuration()
    context = embedded_runtime.embedded_runtime_start(path, [], "divides")
    with pytest.raises(tf.errors.OpError, match="Tiles in excepted state"):
        embedded_runtime.embedded_runtime_call([numpy.zeros_like(ROWS)], context)
    (found,) = embedded_runtime.embedded_runtime_call([ROWS + 1], context)
    numpy.testing.assert_allclose(found, 12 / (ROWS + 1))
