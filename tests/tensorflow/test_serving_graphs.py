"""`ipu.serving` where graphs of TensorFlow 1 are built: variables are given their values, and become constants."""

from __future__ import annotations

import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1
X = numpy.arange(6, dtype="f").reshape(2, 3)
SPEC = [tf.TensorSpec((2, 3), tf.float32, "x")]


def predict(x):
    return x * v1.get_variable("scale", [3], initializer=v1.ones_initializer(), use_resource=True)


def load_scale(session):
    (scale,) = v1.global_variables()
    scale.load(numpy.array([1.0, 2.0, 3.0], "f"), session)


def serve(folder, values):
    """As a session of TensorFlow 1 does."""
    with tf.Graph().as_default(), v1.Session() as session:
        found = v1.saved_model.load(session, ["serve"], str(folder)).signature_def["serving_default"]
        feeds = {found.inputs[name].name: value for name, value in values.items()}
        return session.run({name: entry.name for name, entry in found.outputs.items()}, feeds)


def test_a_step_is_saved_with_the_values_that_its_variables_are_given(tmp_path):
    with tf.Graph().as_default():
        run = ipu.serving.export_single_step(
            predict, tmp_path / "model", 16, SPEC, output_names="y", variable_initializer=load_scale
        )
    numpy.testing.assert_array_equal(serve(tmp_path / "model", {"x": X})["y"], X * [1, 2, 3])
    with tf.Graph().as_default(), v1.Session() as session:
        (found,) = run(v1.placeholder_with_default(X, X.shape))
        numpy.testing.assert_array_equal(session.run(found), X * [1, 2, 3])
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    on_ipu = ipu.ipu_strategy.IPUStrategy().run(loaded.signatures["serving_default"], kwargs={"x": X})
    numpy.testing.assert_array_equal(on_ipu["y"], X * [1, 2, 3])
    ipu.config.reset_ipu_configuration()


def test_variables_may_come_from_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        predict(tf.constant(X))
        load_scale(session)
        v1.train.Saver().save(session, str(tmp_path / "kept" / "values"))
    with tf.Graph().as_default():
        ipu.serving.export_single_step(
            predict,
            tmp_path / "model",
            1,
            SPEC,
            variable_initializer=lambda session: session.run(v1.global_variables_initializer()),
            checkpoint_restore_dir=tmp_path / "kept",  # has the last word
        )
        with pytest.raises(ValueError, match="is no folder"):
            ipu.serving.export_single_step(predict, tmp_path / "other", 1, SPEC, checkpoint_restore_dir="nowhere")
    numpy.testing.assert_array_equal(serve(tmp_path / "model", {"x": X})["output_0"], X * [1, 2, 3])


def test_a_pipeline_is_saved_with_what_the_host_does_before_and_after(tmp_path):
    @tf.function(input_signature=SPEC)
    def before(x):
        return x + 1.0

    with tf.Graph().as_default():
        ipu.serving.export_pipeline(
            [predict, lambda h: h * 2.0],
            tmp_path / "model",
            4,
            preprocessing_step=before,
            postprocessing_step=lambda h: (h, -h),
            variable_initializer=load_scale,
        )
        with pytest.raises(ValueError, match="is not empty"):
            ipu.serving.export_single_step(predict, tmp_path / "model", 1, SPEC)
    found = serve(tmp_path / "model", {"x": X})
    numpy.testing.assert_array_equal(found["output_0"], (X + 1) * [2, 4, 6])
    numpy.testing.assert_array_equal(found["output_1"], (X + 1) * [-2, -4, -6])


def test_values_of_the_first_stages_arguments_are_part_of_the_graph_that_is_saved(tmp_path):
    with tf.Graph().as_default():
        stages = [lambda factor, x: factor * x, lambda h: h + 2.0]
        ipu.serving.export_pipeline(stages, tmp_path / "model", 4, inputs=[42.0], predict_step_signature=SPEC)
    numpy.testing.assert_array_equal(serve(tmp_path / "model", {"x": X})["output_0"], 42 * X + 2)


def test_with_eager_execution_variables_have_their_values_already(tmp_path):
    with pytest.raises(ValueError, match="are for graphs of TensorFlow 1"):
        ipu.serving.export_single_step(lambda x: x, tmp_path / "model", 1, SPEC, variable_initializer=load_scale)
