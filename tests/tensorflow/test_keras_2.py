"""What programs of Keras 2 rely on, and Keras 3 alone refuses."""

import keras
import keras.ipu
import numpy as np
import pytest
from tensorflow.python import ipu

import tensorflow as tf
from openipu_tensorflow.keras.legacy.symbolic import find_function

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
Y = np.ones((2, 1), np.float32)


def build_model():
    given = keras.Input(8)
    waves = tf.concat([tf.math.sin(given) * 30, tf.cast(given, tf.float32)], axis=-1)
    return keras.Model(given, tf.reduce_mean(keras.layers.Dense(3)(waves), axis=1, keepdims=True))


def test_functions_of_tensorflow_on_symbolic_tensors_are_layers():
    model = build_model()
    kernel, bias = (variable.numpy() for variable in model.variables)
    expected = (np.concatenate([np.sin(X) * 30, X], -1) @ kernel + bias).mean(1, keepdims=True)
    np.testing.assert_allclose(model(X), expected, rtol=1e-5, atol=1e-5)
    assert [type(layer).__name__ for layer in model.layers].count("TFOpLambda") == 4


def test_a_model_with_such_layers_is_saved_and_read_again(tmp_path):
    model = build_model()
    model.save(tmp_path / "folder")  # a folder, as Keras 2 made one
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "folder")(X), model(X))


def test_modules_of_keras_2_have_the_classes_of_keras_3():
    from keras.engine import input_spec, keras_tensor
    from keras.layers.core import Lambda, SlicingOpLambda, TFOpLambda
    from keras.optimizer_v2 import gradient_descent

    assert gradient_descent.SGD is keras.optimizers.SGD
    assert (keras_tensor.KerasTensor, input_spec.InputSpec) == (keras.KerasTensor, keras.InputSpec)
    assert Lambda is keras.layers.Lambda
    given = keras.Input((4,))
    assert isinstance(given[:, 1:]._keras_history.operation, SlicingOpLambda)
    assert isinstance(tf.abs(given)._keras_history.operation, TFOpLambda)


@pytest.mark.parametrize("name", ["io.write_file", "py_function", "numpy_function", "raw_ops.WriteFile", "os", "print"])
def test_a_file_cannot_have_a_layer_call_what_is_no_function_of_tensors(name):
    with pytest.raises(ValueError, match="no function of tensors"):
        find_function(name)


def test_weights_by_prefix_are_a_checkpoint_of_tensorflow_with_the_state_of_the_optimizer(tmp_path):
    model, again = build_model(), build_model()
    for one in (model, again):
        one.compile("adam", "mse")
        one.fit(X, Y, verbose=0)
    model.save_weights(tmp_path / "run" / "weights")
    found = tf.train.latest_checkpoint(tmp_path / "run")
    assert found == str(tmp_path / "run" / "weights")
    again.load_weights(found).expect_partial()
    np.testing.assert_array_equal(again(X), model(X))
    for read, held in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(read, held)


def test_weights_in_a_file_of_keras_2_are_written_and_read(tmp_path):
    model, again = build_model(), build_model()
    model.save_weights(tmp_path / "deep" / "weights.h5")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["weights.h5"]
    again.load_weights(tmp_path / "deep" / "weights.h5")
    np.testing.assert_array_equal(again(X), model(X))


def test_weights_are_added_by_the_arguments_of_keras_2():
    class Scale(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(
                "scale", (1,), initializer="ones", experimental_autocast=False, aggregation=tf.VariableAggregation.MEAN
            )

        def call(self, inputs):
            return inputs * self.scale

    layer = Scale(name="deep/scale")
    assert layer.name == "deep_scale"
    np.testing.assert_array_equal(layer(X), X)
    assert layer.weights[0].path.endswith("/scale")


def test_a_model_is_walked_through_from_its_outputs():
    model = build_model()
    layer = model.outputs[0]._keras_history.layer
    assert layer is model.layers[-1]
    assert {model.outputs[0].ref(): 1}[layer.output.ref()] == 1
    assert model.inputs[0].ref() != layer.output.ref()
    assert model.layers[0].input is model.inputs[0]
    layer._name = "another"
    assert layer.name == "another"


def test_weights_of_another_model_are_refused_and_nothing_is_changed(tmp_path):
    build_model().save_weights(tmp_path / "weights")
    other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    before = other.get_weights()
    with pytest.raises(ValueError, match="no weights of this model"):
        other.load_weights(tmp_path / "weights")
    assert all(np.array_equal(*pair) for pair in zip(before, other.get_weights(), strict=True))


def test_a_checkpoint_callback_takes_names_without_an_ending(tmp_path):
    model = build_model()
    model.compile("sgd", "mse")
    whole = keras.callbacks.ModelCheckpoint(str(tmp_path / "models"), include_optimizer=False)
    weights = keras.callbacks.ModelCheckpoint(str(tmp_path / "w-{epoch}"), save_weights_only=True)
    file = keras.callbacks.ModelCheckpoint(str(tmp_path / "f-{epoch}.h5"), save_weights_only=True)
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[whole, weights, file])
    assert {path.name for path in tmp_path.glob("f-*")} == {"f-1.h5", "f-2.h5"}
    assert (tmp_path / "models" / "model.keras").is_file()
    assert {path.name for path in tmp_path.glob("w-*.index")} == {"w-1.index", "w-2.index"}


@pytest.mark.parametrize(("name", "values", "kept"), [("dice_acc_fn", [1, 3, 2], 3), ("distance", [2, 1, 3], 1)])
def test_the_name_of_a_metric_says_which_values_are_better(name, values, kept):
    def watched(target, output):
        return keras.ops.mean(output)

    watched.__name__ = name
    model = build_model()
    model.compile("sgd", "mse", metrics=[watched])
    stopping = keras.callbacks.EarlyStopping(monitor=f"val_{name}", patience=5, mode="auto")
    stopping.set_model(model)
    stopping.on_train_begin()
    for epoch, value in enumerate(values):
        stopping.on_epoch_end(epoch, {f"val_{name}": value})
    assert stopping.best == kept


@pytest.mark.parametrize("arguments", [((False, 64.0), {}), ((), {"dynamic": False, "initial_scale": 64.0})])
def test_a_constant_loss_scale_changes_no_update(arguments):
    args, kwargs = arguments
    scaled = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.1), *args, **kwargs)
    assert float(scaled.scale_loss(tf.constant(2.0))) == 128.0
    variable = keras.Variable([1.0])
    scaled.apply_gradients([(tf.constant([64.0]), variable)])
    np.testing.assert_allclose(variable.numpy(), [0.9], rtol=1e-6)  # 1 - 0.1 x 64 / 64


def test_a_class_may_unscale_gradients_itself():
    class Own(keras.mixed_precision.LossScaleOptimizer):
        def get_unscaled_gradients(self, grads):
            return [gradient / 32 for gradient in grads]

    variable = keras.Variable([1.0])
    optimizer = Own(keras.optimizers.SGD(0.1), dynamic=False, initial_scale=64.0)
    optimizer.apply_gradients([(tf.constant([64.0]), variable)])
    np.testing.assert_allclose(variable.numpy(), [0.8], rtol=1e-6)  # 1 - 0.1 x 64 / 32


def test_a_constant_scale_must_be_positive():
    with pytest.raises(ValueError, match="positive number"):
        keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(), dynamic=False, initial_scale=0.0)


class Decaying(keras.optimizers.SGD):
    def _resource_apply_dense(self, grad, var, apply_state):
        return super()._resource_apply_dense(grad + var * 0.5, var, apply_state)


def test_gradients_are_transformed_and_updates_overridden():
    optimizer = Decaying(lr=np.float32(0.5), gradient_transformers=[lambda pairs: [(g * 2, v) for g, v in pairs]])
    variable = keras.Variable([1.0])
    optimizer.apply_gradients([(tf.constant([1.0]), variable)])
    np.testing.assert_allclose(variable.numpy(), [1 - 0.5 * (1.0 * 2 + 1.0 * 0.5)])
    assert float(optimizer.lr) == 0.5


def test_decay_lowers_the_rate_with_the_steps():
    optimizer = keras.optimizers.SGD(0.5, decay=1.0)
    variable = keras.Variable([1.0])
    for _ in range(2):
        optimizer.apply_gradients([(tf.constant([1.0]), variable)])
    np.testing.assert_allclose(variable.numpy(), [1 - 0.5 / 1 - 0.5 / 2])
    np.testing.assert_allclose(optimizer._decayed_lr(tf.float32), 0.5 / 3)


def test_types_and_shapes_answer_as_those_of_tensorflow():
    variable = keras.Variable(np.zeros((2, 3), np.float16))
    assert variable.dtype == "float16"
    assert (variable.dtype.size, variable.shape.as_list(), variable.get_shape().rank) == (2, [2, 3], 2)
    assert keras.Input((4,)).get_shape().as_list() == [None, 4]


def test_one_target_serves_all_outputs():
    given = keras.Input((1,))
    model = keras.Model(given, [given * 1.0, tf.reduce_sum(given * 2.0)])  # of one number each
    model.compile("sgd", lambda target, output: keras.ops.mean(output - target))
    loss = model.train_on_batch(np.float32([[3]]), np.float32([[1]]), return_dict=True)["loss"]
    assert loss == (3 - 1) + (6 - 1)


def test_a_model_with_metrics_alone_is_evaluated():
    model = build_model()
    model.compile(metrics=["mse"])
    found = model.evaluate(X, Y, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["mse"], np.mean((model(X) - Y) ** 2), rtol=1e-5)
    assert found["loss"] == 0


def test_a_tape_watches_variables_of_keras():
    variable = keras.Variable([3.0])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([variable])
        loss = tf.square(tf.convert_to_tensor(variable))
    np.testing.assert_array_equal(tape.gradient(loss, variable.value), [6.0])


def test_on_an_ipu_they_act_at_updates_of_accumulated_gradients():
    """Two micro-batches, gradients of a scaled loss added up, halved and regularised once; made outside."""
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    inner = Decaying(0.1, gradient_transformers=[lambda pairs: [(g / 2, v) for g, v in pairs]])
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
        model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        model.compile(keras.mixed_precision.LossScaleOptimizer(inner, False, 8.0), "mse", steps_per_execution=2)
        model.fit(
            np.float32([[1], [2]]), np.zeros((2, 1), np.float32), batch_size=1, verbose=0, shuffle=False, workers=2
        )
        (kernel,) = model.get_weights()
    ipu.config.reset_ipu_configuration()
    # d(x w)^2/dw = 2 x^2 w: 2 and 8, halved 5, and 0.5 w = 0.5
    np.testing.assert_allclose(kernel, [[1 - 0.1 * (5 + 0.5)]], rtol=1e-5)
