"""Numbers of eight bits between layers."""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.ipu.ops import f8_ops


class ConvertToF8(keras.layers.Layer):  # type: ignore[misc]
    """Numbers and metadata -> [data, metadata]."""

    def __call__(self, data: Any, metadata: Any, **kwargs: Any) -> Any:
        return super().__call__(data, tf.convert_to_tensor(metadata, tf.uint8), **kwargs)

    def call(self, data: Any, metadata: Any, **kwargs: Any) -> list[Any]:
        return list(f8_ops.convert_to_f8(tf.convert_to_tensor(data), metadata))


class ConvertFromF8(keras.layers.Layer):  # type: ignore[misc]
    """[data, metadata] -> numbers."""

    def __init__(self, dtype: Any = tf.half, **kwargs: Any) -> None:
        super().__init__(dtype=tf.as_dtype(dtype).name, **kwargs)

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        return f8_ops.convert_from_f8(inputs, dtype=tf.as_dtype(self.compute_dtype))
