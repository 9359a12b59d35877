"""Files of TensorFlow and Keras, for the environment that has them: `make fuzz-tensorflow`.

In: `FUZZ_MODULES=fuzz.tensorflow_kinds`. Out: more rows of `KINDS`: the graph of a SavedModel and a `.keras` file,
read as `openipu plan` reads them, up to the program; and files of applications, which are started and called once.
"""

from __future__ import annotations

from pathlib import Path

from fuzz.kinds import KINDS, Kind


def _make_model() -> object:
    import keras

    layers = keras.layers
    parts = [layers.Conv2D(2, 3, activation="relu"), layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)]
    return keras.Sequential([keras.Input((6, 6, 3), 2), *parts])


def write_keras_files(directory: Path) -> None:
    """A small convolutional network."""
    _make_model().save(directory / "model.keras")  # type: ignore[attr-defined]
    (directory / "model.keras").rename(directory / "model.zip")  # damaged as zips are


def write_saved_models(directory: Path) -> None:
    """The same as a graph, and a function with a branch and a loop."""
    import shutil
    import tempfile

    import tensorflow as tf

    class Looped(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((4,), name="x")])
        def __call__(self, x):  # type: ignore[no-untyped-def]
            for _ in tf.range(3):
                x = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1)  # noqa: B023
            return x

    module = Looped()
    with tempfile.TemporaryDirectory() as place:
        network = _make_model()
        spec = tf.TensorSpec((2, 6, 6, 3), name="image")
        signature = tf.function(lambda image: network(image), input_signature=[spec])  # type: ignore[operator]
        tf.saved_model.save(network, f"{place}/network", signatures=signature)
        tf.saved_model.save(module, f"{place}/looped", signatures=module.__call__)
        for name in ("network", "looped"):
            shutil.copy(f"{place}/{name}/saved_model.pb", directory / f"{name}.bin")


def plan_tensorflow_model(path: Path) -> None:
    """As `openipu plan`, up to the program."""
    from openipu.jobs import capture_job
    from openipu_tensorflow.files import load_job

    capture_job(load_job(path, {}))


def write_applications(directory: Path) -> None:
    """A product with a variable that is part of the file, by the embedded runtime's own writer."""
    from tensorflow.python import ipu

    import tensorflow as tf

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.device_connection.type = ipu.config.DeviceConnectionType.NEVER
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.ones((3, 2))))
    out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def run() -> None:
        out.enqueue(tf.matmul(queue._dequeue(), weights))

    compile_op = ipu.application_compile_op.experimental_application_compile_op
    compile_op(run, output_path=directory / "application.zip", freeze_variables=True)
    ipu.config.reset_ipu_configuration()


def run_application(path: Path) -> None:
    """As the embedded runtime, on made-up values."""
    from openipu.admission import run_once
    from openipu_tensorflow.ipu.applications.application import read_application

    run_once(read_application(path).program)


KINDS["application"] = Kind(write_applications, run_application, ".openipu_exec", torch=True)
KINDS["saved-model"] = Kind(write_saved_models, plan_tensorflow_model, ".pb", torch=True)
KINDS["keras-file"] = Kind(write_keras_files, plan_tensorflow_model, ".keras", torch=True)
