"""TensorFlow 2 as programs of TensorFlow 1 know it.

In: a process that has just imported TensorFlow, or Keras, with `OPENIPU_TF1=1` (`openipu run --tf1` sets it). Out:
graphs by default, `import tensorflow` gives the names of `tensorflow.compat.v1`, `tf.layers` included, and Keras treats
layers as it did then.
"""

from __future__ import annotations

import sys
from typing import Any

_OF_TIME = "_follows_tensorflow_1"


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

        v1.__path__ = whole.__path__  # so that packages inside, such as tensorflow.keras, are still found
        restore_layers()
        keep_layers_once()
        take_types_of_inputs()
        sys.modules["tensorflow"] = v1


def restore_layers() -> None:
    """Let `tf.layers` and `tf.nn.rnn_cell` of TensorFlow 1 be what TensorFlow still has of them: Keras 3 has none."""
    from importlib.metadata import version

    import tensorflow.compat.v1 as v1
    from tensorflow.python.util import lazy_loader

    if version("keras").startswith("3."):
        v1.layers = lazy_loader.LazyLoader("layers", vars(v1), "tensorflow.python.layers.layers")
        cells = "tensorflow.python.keras.layers.legacy_rnn.rnn_cell_impl"
        v1.nn.rnn_cell = lazy_loader.LazyLoader("rnn_cell", {}, cells)


def keep_layers_once() -> None:
    """Let a Sequential model have a layer that it is given twice only once, as Keras of that time did."""
    import keras

    original = keras.Sequential.add

    def add(self: Any, layer: Any, **kwargs: Any) -> Any:
        return None if any(layer is held for held in self._layers) else original(self, layer, **kwargs)

    keras.Sequential.add = add


def take_types_of_inputs() -> None:
    """Let a layer whose first input is half be half in programs of TensorFlow 1, as Keras of that time did.

    Keras 3 casts the input to float.
    """
    import keras
    from tensorflow.python import tf2

    original = keras.Layer.__call__
    if hasattr(original, _OF_TIME):
        return

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not tf2.enabled() and not self.built and self.dtype_policy.name == "float32":
            given = [entry.dtype for entry in keras.tree.flatten((args, kwargs)) if hasattr(entry, "dtype")]
            types = (keras.backend.standardize_dtype(entry) for entry in given)
            if next((entry for entry in types if entry.startswith("float")), "") == "float16":
                self.dtype_policy = "float16"
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
