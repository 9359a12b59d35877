"""`Dropout`, whose elements may follow of a seed of two numbers."""

from __future__ import annotations

from typing import Any

import keras
import numpy

import tensorflow as tf
from openipu_tensorflow.ipu.ops import rand_ops


class Dropout(keras.layers.Layer):  # type: ignore[misc]
    """Elements are 0 with probability `rate` in training, and divided by 1 - rate otherwise."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: Any = None, **kwargs: Any) -> None:
        """`ref` (in kwargs) chose how backward finds the same elements; it always does here."""
        self.ref = kwargs.pop("ref", True)
        super().__init__(**kwargs)
        self.rate, self.noise_shape = rate, noise_shape
        self.seed = None if seed is None else [int(number) for number in numpy.asarray(seed).reshape(-1)]

    def build(self, input_shape: Any) -> None:
        if isinstance(self.rate, bool) or not 0 <= self.rate < 1:
            raise ValueError(f"The rate must be in the range [0, 1), but was {self.rate}")

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        value = tf.convert_to_tensor(inputs)
        if training is False:
            return tf.identity(value)
        seed = None if self.seed is None else tf.constant(self.seed, tf.int32)
        return rand_ops.dropout(value, rate=float(self.rate), noise_shape=self.noise_shape, seed=seed)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        own = {"rate": self.rate, "noise_shape": self.noise_shape, "seed": self.seed, "ref": self.ref}
        return {**super().get_config(), **own}
