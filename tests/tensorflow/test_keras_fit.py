"""`fit`, `evaluate` and `predict` on an IPU, against stock Keras on the same data."""

from __future__ import annotations

import keras
import numpy
import pytest
from keras_help import (
    LAYERS,
    LOSS,
    Losses,
    compile_model,
    largest_difference,
    make_data,
    make_dense,
    make_strategy,
)

import tensorflow as tf
from openipu_tensorflow import keras as ipu_keras


class DenseAdam(keras.optimizers.Adam):
    """Stock Keras' Adam squares the parts of an embedding's gradient before it adds them; an IPU's are whole."""

    def apply(self, grads, trainable_variables=None):
        return super().apply([tf.convert_to_tensor(gradient) for gradient in grads], trainable_variables)


def make_cnn():
    """The workshop's, smaller."""
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            LAYERS.Conv2D(8, 3, padding="same", activation="relu"),
            LAYERS.Conv2D(8, 3, activation="relu"),
            LAYERS.MaxPooling2D(2),
            LAYERS.Dropout(0.0),
            LAYERS.Flatten(),
            LAYERS.Dense(16, activation="relu"),
            LAYERS.Dense(4, activation="softmax"),
        ]
    )


def make_transformer():
    keras.utils.set_random_seed(1)
    words = keras.Input((6,), dtype="int32")
    x = LAYERS.Embedding(20, 8)(words)
    x = LAYERS.LayerNormalization()(x + LAYERS.MultiHeadAttention(2, 4)(x, x))
    x = LAYERS.LayerNormalization()(x + LAYERS.Dense(8)(LAYERS.Dense(16, activation="gelu")(x)))
    return keras.Model(words, LAYERS.Dense(4, activation="softmax")(LAYERS.GlobalAveragePooling1D()(x)))


def make_lstm():
    keras.utils.set_random_seed(1)
    words = keras.Input((5,), dtype="int32")
    x = LAYERS.LSTM(6)(LAYERS.Embedding(20, 4)(words))
    return keras.Model(words, LAYERS.Dense(4, activation="softmax")(x))


NETWORKS = {
    "cnn": (make_cnn, {"shape": (12, 12, 3)}, lambda: keras.optimizers.SGD(0.01)),
    "lstm": (make_lstm, {"shape": (5,), "words": 20}, lambda: DenseAdam(0.01)),
    "transformer": (make_transformer, {"shape": (6,), "words": 20}, lambda: DenseAdam(0.01)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_twenty_steps_equal_stock_keras(name):
    make, shape, optimizer = NETWORKS[name]
    x, y = make_data(80, classes=4, **shape)
    found = []
    for scope in (tf.distribute.get_strategy(), make_strategy()):
        losses = Losses()
        with scope.scope():
            model = compile_model(make(), 1, optimizer())
            model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[losses])
        found.append((model, losses.values))
    (stock, expected), (model, values) = found
    assert len(values) == 20
    numpy.testing.assert_allclose(values, expected, rtol=1e-5)
    assert largest_difference(stock, model) < 1e-4
    assert int(model.optimizer.iterations) == 20


@pytest.fixture(scope="module")
def trained():
    """Stock Keras and ours, both after two epochs of 8 batches of 8, with what Keras showed."""
    x, y = make_data()
    found = []
    for scope in (tf.distribute.get_strategy(), make_strategy()):
        with scope.scope():
            model = compile_model(make_dense(), 4, keras.optimizers.Adam(0.01), metrics=["accuracy"])
            losses = Losses()
            history = model.fit(
                x, y, batch_size=8, epochs=2, shuffle=False, verbose=0, callbacks=[losses], validation_data=(x, y)
            )
        found.append((model, history.history, losses))
    return x, y, found


def test_history_is_that_of_stock_keras_with_validation(trained):
    _, _, ((_, expected, _), (_, history, _)) = trained
    assert history.keys() == expected.keys() == {"accuracy", "loss", "val_accuracy", "val_loss"}
    for name, values in expected.items():
        numpy.testing.assert_allclose(history[name], values, rtol=1e-5)


def test_callbacks_are_called_once_for_each_execution(trained):
    *_, (_, (_, _, losses)) = trained
    assert losses.batches == [3, 7, 3, 7]


def test_evaluate_and_predict_equal_stock_keras(trained):
    x, y, ((stock, _, _), (model, _, _)) = trained
    numpy.testing.assert_allclose(
        model.evaluate(x, y, batch_size=8, verbose=0), stock.evaluate(x, y, batch_size=8, verbose=0), rtol=1e-5
    )
    found = model.predict(x, batch_size=8, verbose=0)
    numpy.testing.assert_allclose(found, stock.predict(x, batch_size=8, verbose=0), rtol=1e-5)


def test_optimizer_state_is_there_for_the_host_and_training_goes_on_from_what_the_host_sets(trained):
    x, y, ((stock, _, _), (model, _, _)) = trained
    for one, other in zip(stock.optimizer.variables, model.optimizer.variables, strict=True):
        numpy.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-4, atol=1e-7)
    for each in (stock, model):
        each.optimizer.learning_rate = 0.002
        each.set_weights([0.5 * value for value in each.get_weights()])
        each.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    assert largest_difference(stock, model) < 1e-5


def test_a_model_that_is_compiled_again_keeps_what_it_has_learned(trained):
    x, y, (_, (model, _, _)) = trained
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    compile_model(model, 8, metrics=["accuracy"])  # Keras now traces the model before anybody has read its weights
    found = model.evaluate(x, y, batch_size=8, verbose=0)
    copy = compile_model(make_dense(), metrics=["accuracy"])
    copy.set_weights(model.get_weights())
    numpy.testing.assert_allclose(found, copy.evaluate(x, y, batch_size=8, verbose=0), rtol=1e-5)
    assert largest_difference(make_dense(), model) > 0.01


def test_single_batches_run_on_the_device_too(trained):
    x, y, (_, (model, _, _)) = trained
    stock = compile_model(make_dense(), metrics=["accuracy"])
    stock.set_weights(model.get_weights())
    with model.distribute_strategy.scope():
        compile_model(model, metrics=["accuracy"])
    for method, data in (("predict_on_batch", (x[:8],)), ("test_on_batch", (x[:8], y[:8]))):
        numpy.testing.assert_allclose(getattr(model, method)(*data), getattr(stock, method)(*data), rtol=1e-5)
    model.train_on_batch(x[:8], y[:8])
    stock.train_on_batch(x[:8], y[:8])
    assert largest_difference(stock, model) < 1e-6


def test_what_was_saved_is_what_was_trained(trained, tmp_path):
    x, _, (_, (model, _, _)) = trained
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert largest_difference(loaded, model) == 0
    numpy.testing.assert_allclose(
        loaded.predict(x, batch_size=8, verbose=0), model.predict(x, batch_size=8, verbose=0), rtol=1e-5
    )


def train(ipus, set_up, batch, steps, make=make_dense, **options):
    x, y = make_data()
    with make_strategy(ipus).scope():
        model = make()
        set_up(model)
        compile_model(model, steps, metrics=["accuracy"])
        history = model.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0, **options)
    return model, history.history


@pytest.fixture(scope="module")
def whole():
    """Stock Keras with batches of 16."""
    x, y = make_data()
    model = compile_model(make_dense())
    model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return model


def make_pipelined():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((8,))
    with ipu_keras.PipelineStage(0):
        hidden = LAYERS.Dense(16, activation="tanh", name="hidden")(inputs)
    with ipu_keras.PipelineStage(1):
        return keras.Model(inputs, LAYERS.Dense(3, activation="softmax", name="classes")(hidden))


def test_accumulation_equals_one_large_batch(whole):
    model, _ = train(
        1,
        lambda model: model.set_gradient_accumulation_options(4, gradient_accumulation_reduction_method="mean"),
        4,
        16,
    )
    assert largest_difference(whole, model) < 1e-6
    assert int(model.optimizer.iterations) == 8


def test_gradients_of_replicas_are_summed(whole):
    def halve(model):
        model.set_replication_options("MEAN")

    x, y = make_data()
    model, history = train(2, halve, 8, 4)  # sums over 2 replicas: as a loss of twice the size
    keras.utils.set_random_seed(1)
    stock = make_dense()
    stock.compile(keras.optimizers.SGD(0.1), LOSS, metrics=["accuracy"])
    expected = stock.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0).history
    assert largest_difference(stock, model) < 1e-6
    numpy.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)


def test_a_pipeline_equals_one_large_batch_and_is_planned_as_one(whole):
    model, _ = train(
        2,
        lambda model: model.set_pipelining_options(4, gradient_accumulation_reduction_method="mean"),
        4,
        16,
        make_pipelined,
    )
    assert largest_difference(whole, model) < 1e-6
    (runner,) = model.train_function._runners.values()
    plan = runner.step.plan
    assert plan.ipus == 2
    places = {op.ipu for op in plan.ops if "hidden" in op.module}
    assert places == {0}
    assert {op.ipu for op in plan.ops if "classes" in op.module} == {1}
    assert plan.pipeline is not None


def test_asynchronous_callbacks_are_called_for_each_step():
    losses = Losses()
    _, history = train(1, lambda model: model.set_asynchronous_callbacks(True), 8, 4, callbacks=[losses])
    assert losses.batches == [*range(8), *range(8)]
    assert losses.values[7] == history["loss"][0]


def test_errors_come_from_fit_itself():
    x, y = make_data()
    with make_strategy(2).scope():
        model = compile_model(make_pipelined(), 8)
        with pytest.raises(ValueError, match="has not been set through `set_pipelining_options"):
            model.fit(x, y, batch_size=8, verbose=0)
        model.set_pipelining_options(3)
        with pytest.raises(RuntimeError, match="is not divisible by `gradient_accumulation_steps_per_replica`"):
            model.fit(x, y, batch_size=8, verbose=0)
        with pytest.raises(ValueError, match="has a partial batch"):
            model.evaluate(x, y, batch_size=7, verbose=0)
        with pytest.raises(ValueError, match="drop_remainder=True"):
            model.predict(tf.data.Dataset.from_tensor_slices(x).batch(8), verbose=0)
    with make_strategy(1).scope(), pytest.raises(ValueError, match="Current device has 1 IPUs attached"):
        compile_model(make_pipelined(), 1).evaluate(x, y, batch_size=8, verbose=0)


@pytest.mark.parametrize(("flag", "shown"), [("true", True), ("false", False), ("auto", False)])
def test_a_bar_shows_the_compilation_as_the_flags_say(flag, shown, monkeypatch, capfd):
    monkeypatch.setenv("TF_POPLAR_FLAGS", f"--show_progress_bar={flag}")  # auto: no terminal, no bar
    x, y = make_data(8)
    with make_strategy().scope():
        compile_model(make_dense()).fit(x, y, batch_size=4, verbose=0)
    assert ("Graph compilation: 100%" in capfd.readouterr().err) == shown


@pytest.mark.parametrize("kind", ["functional", "subclassed"])
def test_a_compiled_model_predicts_before_it_was_ever_trained(kind):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, x):
            return self.dense(x)

    x, _ = make_data(8)
    with make_strategy().scope():
        model = make_dense() if kind == "functional" else Own()
        model.compile("sgd", "mse", steps_per_execution=4)
        found = model.predict(x, batch_size=2, verbose=0)
    numpy.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-6)
