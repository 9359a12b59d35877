"""TensorFlow's functions on the symbolic tensors of functional models: `tf.sin(keras.Input(8))`.

In: a call of any function of TensorFlow with a `KerasTensor` among its arguments. Out: a layer of the model that calls
it, as Keras 2 made one. Keras 3 refuses these calls; TensorFlow asks its dispatchers before it gives up.
"""

from __future__ import annotations

from typing import Any

import keras
from keras.src.ops.operation import Operation
from keras.src.utils.naming import uniquify
from tensorflow.python.util import dispatch, tf_export

import tensorflow as tf

# Whose names a file may call: functions of tensors alone. Others read and write files, or call Python.
_SPACES = ("", "bitwise", "image", "linalg", "math", "nn", "random", "sets", "signal")
_REFUSED = ("print", "py_function", "numpy_function")


@keras.saving.register_keras_serializable(package="openipu")
class TFOpLambda(keras.layers.Layer):  # type: ignore[misc]
    """A layer that calls one function of TensorFlow."""

    def __init__(self, function: Any, **kwargs: Any) -> None:
        """`function`: itself, or the name under which TensorFlow has it, such as "math.sin"."""
        symbol = function if isinstance(function, str) else name_function(function)
        super().__init__(**{"name": uniquify(f"tf.{symbol}"), "autocast": False, **kwargs})
        self.symbol = symbol
        self.function = find_function(symbol) if isinstance(function, str) else function
        self.built = True
        self._call_context_args: set[str] = set()  # functions know nothing of `training`

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Without what layers do to their arguments: those of functions are tensors, types, lists of both."""
        return Operation.__call__(self, *args, **kwargs)

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        return Operation.symbolic_call(self, *args, **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        given = tf.nest.map_structure(_as_dense, (args, kwargs))
        return super().compute_output_spec(*given[0], **given[1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "function": self.symbol}


def _as_dense(entry: Any) -> Any:
    """Keras 3 calls the product of a tensor and a number sparse, which it is not. An IPU has no sparse tensors."""
    if isinstance(entry, keras.KerasTensor) and entry.sparse:
        return keras.KerasTensor(entry.shape, entry.dtype, name=entry.name)
    return entry


def name_function(function: Any) -> str:
    """As TensorFlow exports it, else as it is called in its module."""
    return tf_export.get_canonical_name_for_symbol(function) or str(function.__name__)


def find_function(name: str) -> Any:
    """Raises ValueError for a name that TensorFlow does not have: it may come from a file."""
    space, _, own = name.rpartition(".")
    found: Any = tf
    for part in name.split("."):
        found = getattr(found, part, None)
    if space not in _SPACES or own in _REFUSED or not hasattr(found, dispatch.FALLBACK_DISPATCH_ATTR):
        raise ValueError(f"A saved layer calls tf.{name}, which is no function of tensors that TensorFlow has.")
    return found


class _SymbolicDispatcher(dispatch.GlobalOpDispatcher):  # type: ignore[misc]
    def handle(self, op: Any, args: Any, kwargs: Any) -> Any:
        if any(isinstance(entry, keras.KerasTensor) for entry in tf.nest.flatten((args, kwargs))):
            return TFOpLambda(op)(*args, **kwargs)
        return self.NOT_SUPPORTED


def take_symbolic_tensors() -> None:
    _SymbolicDispatcher().register()
