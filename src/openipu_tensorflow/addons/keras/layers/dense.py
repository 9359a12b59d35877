"""`SerialDense`: a dense layer whose product is taken in parts. `Dense`: one that also takes numbers of eight bits."""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.ipu.ops.f8_ops import QuarterTensor, convert_from_f8
from openipu_tensorflow.ipu.ops.math_ops import serialized_matmul

_DIMENSIONS = {
    "input_columns": "a_columns",
    "input_rows_kernel_columns": "a_rows_b_columns",
    "kernel_rows": "b_rows",
}


class SerialDense(keras.layers.Dense):  # type: ignore[misc]
    """As `keras.layers.Dense`, in `serialization_factor` parts one after the other: less memory at a time."""

    def __init__(
        self, units: int, serialization_factor: int, serialization_dimension: str, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(units, *args, **kwargs)
        if serialization_dimension not in _DIMENSIONS:
            raise ValueError(
                f"Invalid serialization_dimension={serialization_dimension!r} value. Must be one of: "
                f"{', '.join(map(repr, _DIMENSIONS))}."
            )
        self.serialization_factor, self.serialization_dimension = int(serialization_factor), serialization_dimension

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        value, kernel = tf.convert_to_tensor(inputs), tf.convert_to_tensor(self.kernel)
        value = tf.cast(value, kernel.dtype)
        lead = value.shape[:-1]
        flat = tf.reshape(value, [-1, value.shape[-1]])
        made = serialized_matmul(flat, kernel, self.serialization_factor, _DIMENSIONS[self.serialization_dimension])
        made = tf.reshape(made, [*lead, self.units])
        if self.use_bias:
            made = made + tf.convert_to_tensor(self.bias)
        return made if self.activation is None else self.activation(made)

    def get_config(self) -> dict[str, Any]:
        own = {
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
        }
        return {**super().get_config(), **own}


class Dense(keras.layers.Dense):  # type: ignore[misc]
    """As `keras.layers.Dense`; inputs may also be a `QuarterTensor`, or [data, metadata] of one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.input_spec = None  # one tensor, or two

    def build(self, input_shape: Any) -> None:
        several = len(input_shape) > 0 and isinstance(input_shape[0], list | tuple)
        super().build(tuple(input_shape[0] if several else input_shape))
        self.input_spec = None

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if isinstance(inputs, QuarterTensor | list | tuple):
            inputs = convert_from_f8(tuple(inputs), dtype=self.compute_dtype)
        return super().call(inputs, training)
