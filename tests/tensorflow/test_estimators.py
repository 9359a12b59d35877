"""Estimators for IPUs: checkpoints, metrics and predictions against the arithmetic, refusals by name."""

from __future__ import annotations

import numpy
import pytest
from tensorflow.python import ipu

import tensorflow as tf

v1 = tf.compat.v1
RATE, START = 0.25, 2.0
FEATURES = numpy.array([1.0, 2.0, 3.0, 4.0], numpy.float32)


def read_features():
    return tf.data.Dataset.from_tensor_slices((FEATURES, FEATURES)).repeat()


def model(features, labels, mode):
    """loss = w * x, so that each step takes RATE * x from w."""
    w = v1.get_variable("w", initializer=START, use_resource=True)
    predictions = w * features
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        train_op = v1.train.GradientDescentOptimizer(RATE).minimize(predictions)
    return tf.estimator.EstimatorSpec(
        mode,
        predictions=tf.reshape(predictions, [1]),
        loss=predictions,
        train_op=train_op,
        eval_metric_ops={"mean": v1.metrics.mean(predictions)} if mode == tf.estimator.ModeKeys.EVAL else None,
    )


def make_config(iterations=2, **settings):
    return ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(iterations_per_loop=iterations, **settings)
    )


def test_an_estimator_trains_saves_goes_on_evaluates_and_predicts(tmp_path):
    estimator = ipu.ipu_estimator.IPUEstimator(model, model_dir=tmp_path, config=make_config())
    estimator.train(read_features, steps=4)
    assert estimator.get_variable_value("w") == START - RATE * FEATURES.sum()
    assert estimator.get_variable_value("global_step") == 4
    again = ipu.ipu_estimator.IPUEstimator(model, model_dir=tmp_path, config=make_config())
    again.train(read_features, max_steps=6)  # the data set begins anew
    w = START - RATE * (FEATURES.sum() + 1.0 + 2.0)
    assert again.get_variable_value("w") == w
    found = again.evaluate(read_features, steps=4)
    assert found == {"loss": w * FEATURES.mean(), "mean": w * FEATURES.mean(), "global_step": 6}
    predictions = again.predict(read_features, num_predictions=4)
    numpy.testing.assert_array_equal(list(predictions), w * FEATURES)


def counting(features, labels, mode):
    """Counts its steps itself, as estimators of the host do."""
    w = v1.get_variable("w", initializer=START, use_resource=True)
    step = v1.train.get_global_step()
    op = v1.train.GradientDescentOptimizer(RATE).minimize(w * features, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=w * features, train_op=op)


def test_a_plain_estimator_runs_on_the_host(tmp_path):
    estimator = tf.estimator.Estimator(counting, model_dir=tmp_path / "host")
    estimator.train(lambda: read_features().take(4))
    assert estimator.get_variable_value("global_step") == 4
    assert estimator.get_variable_value("w") == START - RATE * FEATURES.sum()


def test_layers_of_keras_find_their_weights_in_the_checkpoint_of_an_earlier_graph(tmp_path):
    import keras

    def layered(features, labels, mode):
        predictions = keras.layers.Dense(1, kernel_initializer="ones")(tf.reshape(features, [1, 1]))
        loss = tf.reduce_sum(predictions)
        return tf.estimator.EstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=v1.train.GradientDescentOptimizer(RATE).minimize(loss) if mode == "train" else None,
        )

    estimator = ipu.ipu_estimator.IPUEstimator(layered, model_dir=tmp_path, config=make_config(1))
    estimator.train(read_features, steps=1)
    estimator.train(read_features, steps=1)
    kernel, bias = 1.0 - 2 * RATE, -2 * RATE
    found = list(estimator.predict(read_features, num_predictions=2))
    numpy.testing.assert_allclose(numpy.ravel(found), kernel * FEATURES[:2] + bias, rtol=1e-6)


def test_stages_of_a_pipeline_estimator_are_one_update_for_all_micro_batches(tmp_path):
    def staged(mode):
        def first(features, labels):
            return v1.get_variable("w", initializer=START, use_resource=True) * features

        def update(loss):
            return ipu.pipelining_ops.OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(RATE), loss)

        return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
            mode,
            computational_stages=[first, lambda loss: loss],
            gradient_accumulation_count=4,
            optimizer_function=update,
        )

    options = ipu.config.IPUConfig()
    options.auto_select_ipus = 2
    estimator = ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        staged, model_dir=tmp_path, config=make_config(4, num_shards=2, ipu_options=options)
    )
    estimator.train(read_features, steps=4)
    assert estimator.get_variable_value("w") == START - RATE * FEATURES.sum()


def test_steps_that_are_no_multiple_of_a_loop_are_refused():
    estimator = ipu.ipu_estimator.IPUEstimator(model, config=make_config(3))
    with pytest.raises(ValueError, match="must be a multiple of iterations_per_loop"):
        estimator.train(read_features, steps=4)


def test_an_estimator_for_ipus_counts_its_steps_itself():
    with pytest.raises(ValueError, match="Illegal increment of the `global_step`"):
        ipu.ipu_estimator.IPUEstimator(counting, config=make_config(1)).train(read_features, steps=1)


def test_clusters_of_servers_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="popdist"):
        ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1(None)
