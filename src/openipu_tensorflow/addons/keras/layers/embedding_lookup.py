"""`Embedding`: rows of a table, which may be used in parts."""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.addons.keras.layers.refusing import refuse
from openipu_tensorflow.ipu.ops.embedding_ops import embedding_lookup


class Embedding(keras.layers.Layer):  # type: ignore[misc]
    """Whole numbers [batch, …] become rows of a table [input_dim, output_dim]."""

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: int | None = None,
        serialization_factor: int = 1,
        **kwargs: Any,
    ) -> None:
        refuse(
            "Embedding",
            {
                "embeddings_regularizer": embeddings_regularizer,
                "activity_regularizer": activity_regularizer,
                "embeddings_constraint": embeddings_constraint,
                "mask_zero": mask_zero,
                "input_length": input_length,
            },
        )
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.serialization_factor = serialization_factor

    def build(self, input_shape: Any) -> None:
        if len(input_shape) < 2:
            raise ValueError(f"The input shape should be at least [batch, length], and is {tuple(input_shape)}.")
        self.embeddings = self.add_weight(
            name="embeddings", shape=(self.input_dim, self.output_dim), initializer=self.embeddings_initializer
        )

    def call(self, inputs: Any, inputs_are_sorted: bool = False, training: bool | None = None) -> Any:
        ids = tf.cast(tf.convert_to_tensor(inputs), tf.int32)
        table = tf.convert_to_tensor(self.embeddings)
        return embedding_lookup(table, ids, self.serialization_factor, bool(inputs_are_sorted))

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return (*input_shape, self.output_dim)

    def get_config(self) -> dict[str, Any]:
        own = {
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "serialization_factor": self.serialization_factor,
        }
        return {**super().get_config(), **own}
