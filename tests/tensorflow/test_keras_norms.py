"""Batch norms and layer norms as single ops: five steps of training against stock Keras, and what stays as it is."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_help import LAYERS, compile_model, largest_difference, make_data, make_strategy

import tensorflow as tf
from openipu_tensorflow.keras.running.tracing import Mode, trace_step

SHAPE = (6, 6, 4)


def make(*layers):
    inputs = keras.Input(SHAPE)
    x = inputs
    for layer in (*layers, LAYERS.Flatten(), LAYERS.Dense(3, activation="softmax")):
        x = layer(x)
    return keras.Model(inputs, x)


NETWORKS = {
    "images": (lambda: make(LAYERS.Conv2D(5, 3), LAYERS.BatchNormalization(momentum=0.9)), "FusedBatchNormV3"),
    "rows": (lambda: make(LAYERS.Flatten(), LAYERS.Dense(7), LAYERS.BatchNormalization()), "FusedBatchNormV3"),
    "no scale": (lambda: make(LAYERS.BatchNormalization(scale=False, center=False)), "FusedBatchNormV3"),
    "channels in front": (lambda: make(LAYERS.BatchNormalization(axis=1)), "FusedBatchNormV3"),
    "layer norm": (lambda: make(LAYERS.Dense(8), LAYERS.LayerNormalization(epsilon=1e-5)), "PyFuncStateless"),
    "layer norm without scale": (lambda: make(LAYERS.LayerNormalization(scale=False)), "PyFuncStateless"),
}
AS_THEY_ARE = {
    "another dimension": lambda: make(LAYERS.BatchNormalization(axis=2)),
    "two dimensions": lambda: make(LAYERS.LayerNormalization(axis=[-2, -1])),
    "root mean square": lambda: make(LAYERS.RMSNormalization()),
}


def list_kinds(make_model):
    with make_strategy().scope():
        model = compile_model(make_model())
        spec = (tf.TensorSpec((8, *SHAPE), tf.float32), tf.TensorSpec((8,), tf.int32))
        model.optimizer.build(model.trainable_variables)
        return {op.type for op in trace_step(model, Mode.FIT, spec).graph.get_operations()}


@pytest.mark.parametrize("name", NETWORKS)
def test_training_and_prediction_equal_stock_keras(name):
    x, y = make_data(40, shape=SHAPE)
    models = []
    for scope in (tf.distribute.get_strategy(), make_strategy()):
        with scope.scope():
            keras.utils.set_random_seed(1)
            model = compile_model(NETWORKS[name][0](), 5, keras.optimizers.SGD(0.05))
            model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        models.append(model)
    assert largest_difference(*models) < 1e-5  # moving statistics included
    found, expected = (model.predict(x, batch_size=8, verbose=0) for model in models)
    numpy.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_norm_is_one_op(name):
    make_model, kind = NETWORKS[name]
    assert kind in list_kinds(make_model)


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_other_norms_stay_as_keras_writes_them(name):
    assert not {"FusedBatchNormV3", "PyFuncStateless"} & list_kinds(AS_THEY_ARE[name])
