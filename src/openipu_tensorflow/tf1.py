"""TensorFlow 2 as programs of TensorFlow 1 know it.

In: a process that has just imported TensorFlow, or Keras, with `OPENIPU_TF1=1` (`openipu run --tf1` sets it). Out:
graphs by default, `import tensorflow` gives the names of `tensorflow.compat.v1`, `tf.layers` included, and Keras treats
layers as it did then.
"""

from __future__ import annotations

import sys
from typing import Any

_OF_TIME = "_follows_tensorflow_1"
_FOLLOWS = "_takes_the_type_of_its_input"


def activate(name: str = "tensorflow") -> None:
    """Switch to the behaviour and the names of TensorFlow 1."""
    import tensorflow.compat.v1 as v1

    v1.disable_v2_behavior()
    accept_whole_floats()
    import keras  # it needs the names of TensorFlow 2 while it is loaded

    if hasattr(keras, "Sequential"):
        activate_keras()


def activate_keras(name: str = "keras") -> None:
    """The rest, once both are there: a program may import Keras first, which is half loaded then while it imports
    TensorFlow.
    """
    whole = sys.modules.get("tensorflow")
    if whole is not None and whole.__name__ == "tensorflow":  # loaded, and not yet switched
        import tensorflow.compat.v1 as v1  # not the object that it was before Keras was loaded

        # Packages inside, such as tensorflow.keras and tensorflow.compat.v1.logging, are still found.
        v1.__path__ = list(dict.fromkeys([*whole.__path__, *v1.__path__]))
        v1.python = sys.modules["tensorflow.python"]
        restore_layers()
        restore_contrib()
        restore_readers()
        from openipu_tensorflow.tf1_data import restore_statistics

        restore_statistics(v1.data.experimental)
        v1.compat.v1 = v1  # it has a copy inside, which programs would get that import tensorflow.compat.v1 from now on
        keep_layers_once()
        take_types_of_inputs()
        sys.modules["tensorflow"] = v1


def restore_layers() -> None:
    """Let `tf.layers` and `tf.nn.rnn_cell` of TensorFlow 1 be what TensorFlow still has of them: Keras 3 has none."""
    from importlib.metadata import version

    import tensorflow.compat.v1 as v1
    from tensorflow.python.util import lazy_loader

    if version("keras").startswith("3."):
        v1.layers = lazy_loader.LazyLoader("layers", vars(v1), "openipu_tensorflow.tf1_layers")
        cells = "tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl"
        v1.nn.rnn_cell = lazy_loader.LazyLoader("rnn_cell", {}, cells)


def restore_contrib() -> None:
    """Let `tf.contrib` be there without an import of it, as it was."""
    import tensorflow.compat.v1 as v1
    from tensorflow.python.util import lazy_loader

    v1.contrib = lazy_loader.LazyLoader("contrib", vars(v1), "openipu_tensorflow.contrib")


def restore_readers() -> None:
    """Let checkpoints be read through `pywrap_tensorflow`, by either of its names."""
    import tensorflow.compat.v1 as v1
    from tensorflow.python import pywrap_tensorflow
    from tensorflow.python.training.py_checkpoint_reader import NewCheckpointReader

    pywrap_tensorflow.NewCheckpointReader = NewCheckpointReader
    v1.pywrap_tensorflow = pywrap_tensorflow


def keep_layers_once() -> None:
    """Let a Sequential model have a layer that it is given twice only once, as Keras of that time did."""
    import keras

    original = keras.Sequential.add

    def add(self: Any, layer: Any, **kwargs: Any) -> Any:
        return None if any(layer is held for held in self._layers) else original(self, layer, **kwargs)

    keras.Sequential.add = add


def take_types_of_inputs() -> None:
    """Let a layer whose first input is half be half in programs of TensorFlow 1, as Keras of that time did.

    Keras 3 casts the input to float. Weights of batch norms stay float, as they did then.
    """
    import keras
    from tensorflow.python import tf2

    original = keras.Layer.__call__
    if hasattr(original, _OF_TIME):
        return

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Layers without weights, such as activations, are built from the start, and follow each of their inputs.
        if not tf2.enabled() and not (self.built and self.weights) and self.dtype_policy.name in ("float32", "float16"):
            given = [entry.dtype for entry in keras.tree.flatten((args, kwargs)) if hasattr(entry, "dtype")]
            types = (keras.backend.standardize_dtype(entry) for entry in given)
            first = next((entry for entry in types if entry.startswith("float")), "")
            if first == "float16" and isinstance(self, keras.layers.BatchNormalization):
                self.dtype_policy = "mixed_float16"  # its weights stay float
            elif first == "float16" or (first == "float32" and hasattr(self, _FOLLOWS)):
                self.dtype_policy = first
                setattr(self, _FOLLOWS, True)
        return original(self, *args, **kwargs)

    setattr(call, _OF_TIME, True)
    keras.Layer.__call__ = call


def accept_whole_floats() -> None:
    """Let 8 / 4 be a size, as it was."""
    from tensorflow.python.framework import tensor_shape

    original = tensor_shape.Dimension.__init__

    def initialize(self: Any, value: Any) -> None:
        original(self, int(value) if isinstance(value, float) and value.is_integer() else value)

    tensor_shape.Dimension.__init__ = initialize
