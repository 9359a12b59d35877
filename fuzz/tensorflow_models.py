"""Rows for models of TensorFlow, whose reading needs it: `FUZZ_MODULES=fuzz.tensorflow_models`, in its environment."""

from __future__ import annotations

from pathlib import Path

from fuzz.kinds import KINDS, Kind


def write_saved_models(directory: Path) -> None:
    """Graphs of a CNN with a batch norm, and of a function with a loop and a branch."""
    import tempfile

    import tensorflow as tf

    class Looping(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(tf.ones((3, 3)))

        @tf.function(input_signature=[tf.TensorSpec((2, 3), name="x")])
        def __call__(self, x):
            for _ in tf.range(3):
                x = tf.matmul(x, self.weight)
            return tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x)

    for name, model in (("cnn", _make_cnn()), ("loop", Looping())):
        with tempfile.TemporaryDirectory() as folder:
            signature = model.__call__ if name == "loop" else _serve(model)
            tf.saved_model.save(model, folder, signatures=signature)
            (directory / f"{name}.bin").write_bytes((Path(folder) / "saved_model.pb").read_bytes())


def write_keras_models(directory: Path) -> None:
    """A CNN, and a model with two inputs and a recurrent layer."""
    import keras

    _make_cnn().save(directory / "cnn.keras")
    words, size = keras.Input((4,), 1, name="words", dtype="int32"), keras.Input((2,), 1, name="size")
    sequence = keras.layers.GRU(3)(keras.layers.Embedding(7, 5)(words))
    joined = keras.layers.Concatenate()([sequence, size])
    keras.Model([words, size], keras.layers.Dense(2)(joined)).save(directory / "words.keras")
    for path in directory.glob("*.keras"):
        path.rename(path.with_suffix(".zip"))


def plan_model(path: Path) -> None:
    """As `openipu plan`, up to the program."""
    from openipu.jobs import capture_job
    from openipu_tensorflow.files import load_job

    capture_job(load_job(path, {}))


def _make_cnn():
    import keras

    layers = keras.layers
    parts = [layers.Conv2D(2, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)]
    return keras.Sequential([keras.Input((6, 6, 1), 2, name="image"), *parts])


def _serve(model):
    import tensorflow as tf

    return tf.function(lambda image: model(image, training=False)).get_concrete_function(tf.TensorSpec((2, 6, 6, 1)))


KINDS["saved-model"] = Kind(write_saved_models, plan_model, ".pb", torch=True)
KINDS["keras"] = Kind(write_keras_models, plan_model, ".keras", torch=True)
