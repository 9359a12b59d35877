"""`EffectiveTransformer`: attention of many heads over padded sequences of numbers.

In: two sets of sequences with their lengths. Out: one row of units a sequence, and what its heads attended to. An IPU
works on a few sequences at a time and leaves out their padding, which decides its memory and not its results; here all
sequences are computed together, padding is zeros, and the plan has the cost of that.
"""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.addons.keras.layers.dropout import Dropout
from openipu_tensorflow.addons.keras.layers.normalization import LayerNormalization

_INITIALIZERS = (
    "embedding_initializer",
    "embedding_bias_initializer",
    "output_initializer",
    "output_bias_initializer",
)


class EffectiveTransformer(keras.layers.Layer):  # type: ignore[misc]
    """Called with [from_sequences, their lengths, to_sequences, their lengths], and perhaps a mask of the heads."""

    def __init__(
        self,
        output_layer_size: int,
        max_batch_size: int,
        use_scale: bool = False,
        num_attention_heads: int = 1,
        attention_head_size: int = 1,
        sequences_per_iter: int = 1,
        qkv_activation: Any = None,
        attention_dropout_prob: float | None = None,
        output_activation: Any = None,
        output_dropout_prob: float | None = None,
        layer_norm_output: bool = True,
        embedding_initializer: Any = "glorot_uniform",
        embedding_bias_initializer: Any = "zeros",
        output_initializer: Any = "glorot_uniform",
        output_bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        """`max_batch_size` and `sequences_per_iter` bound how much an IPU has in hand at a time; they are checked."""
        super().__init__(**kwargs)
        if sequences_per_iter > max_batch_size:
            raise ValueError(
                f"max_batch_size must be greater than sequences_per_iter, and they are {max_batch_size} and "
                f"{sequences_per_iter}."
            )
        self.output_layer_size, self.max_batch_size = output_layer_size, max_batch_size
        self.use_scale, self.layer_norm_output = use_scale, layer_norm_output
        self.num_attention_heads, self.attention_head_size = num_attention_heads, attention_head_size
        self.sequences_per_iter = sequences_per_iter
        self.qkv_activation = keras.activations.get(qkv_activation)
        self.output_activation = keras.activations.get(output_activation)
        self.attention_dropout_prob, self.output_dropout_prob = attention_dropout_prob, output_dropout_prob
        self.embedding_initializer = keras.initializers.get(embedding_initializer)
        self.embedding_bias_initializer = keras.initializers.get(embedding_bias_initializer)
        self.output_initializer = keras.initializers.get(output_initializer)
        self.output_bias_initializer = keras.initializers.get(output_bias_initializer)

    def build(self, input_shapes: Any) -> None:
        """A number of a sequence becomes a query, a key or a value for each head."""
        _check_count(input_shapes)
        width = self.num_attention_heads * self.attention_head_size
        self._embeddings = [self._embed_by(f"{name}_layer", width) for name in ("query", "key", "value")]
        if self.use_scale:
            self._scale = self.add_weight(name="scale", shape=(1,), initializer="ones")
        self._output_layer = keras.layers.Dense(
            self.output_layer_size,
            activation=self.output_activation,
            kernel_initializer=self.output_initializer,
            bias_initializer=self.output_bias_initializer,
            dtype=self.dtype_policy,
            name="output_layer",
        )
        self._output_layer.build((input_shapes[0][0], input_shapes[0][1] * width))
        attention, output = self.attention_dropout_prob, self.output_dropout_prob
        self._attention_dropout = None if attention is None else Dropout(attention)
        self._output_dropout = None if output is None else Dropout(output)
        self._norm = LayerNormalization(dtype=self.dtype_policy) if self.layer_norm_output else None
        if self._norm is not None:
            self._norm.build((input_shapes[0][0], self.output_layer_size))

    def _embed_by(self, name: str, width: int) -> Any:
        layer = keras.layers.Dense(
            width,
            activation=self.qkv_activation,
            kernel_initializer=_copy(self.embedding_initializer),
            bias_initializer=_copy(self.embedding_bias_initializer),
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, 1))
        return layer

    def call(self, inputs: Any, training: bool = True) -> Any:
        """[sequences, output_layer_size], and [sequences, from length, heads, head size]."""
        _check_count(inputs)
        source, source_lengths, target, target_lengths = (tf.convert_to_tensor(value) for value in inputs[:4])
        _check(source, source_lengths, target, target_lengths)
        heads = (source.shape[0], self.num_attention_heads)
        mask = tf.ones(heads, tf.bool) if len(inputs) == 4 else tf.convert_to_tensor(inputs[4])
        if tuple(mask.shape) != heads:
            raise ValueError(f"q_mask must have shape [num_sequences, num_attention_heads], not {tuple(mask.shape)}.")
        query, key, value = (
            self._embed(layer, sequences, lengths)
            for layer, sequences, lengths in zip(
                self._embeddings,
                (source, target, target),
                (source_lengths, target_lengths, target_lengths),
                strict=True,
            )
        )
        scores = tf.matmul(query, key, transpose_b=True)
        scores = scores * tf.cast(tf.convert_to_tensor(self._scale), scores.dtype) if self.use_scale else scores
        context = tf.matmul(tf.nn.softmax(scores), value)
        context = context * tf.cast(mask, context.dtype)[:, :, None, None]
        if self._attention_dropout is not None:
            context = self._attention_dropout(context, training=training)
        context = tf.transpose(context, [0, 2, 1, 3])
        output = self._output_layer(tf.reshape(context, [source.shape[0], -1]))
        if self._output_dropout is not None:
            output = self._output_dropout(output, training=training)
        return (output if self._norm is None else self._norm(output, training=training)), context

    def _embed(self, layer: Any, sequences: Any, lengths: Any) -> Any:
        """[sequences, heads, length, head size]: zeros beyond the end of each sequence."""
        count, length = sequences.shape
        found = layer(tf.cast(tf.reshape(sequences, [-1, 1]), self.compute_dtype))
        found = tf.reshape(found, [count, length, self.num_attention_heads, self.attention_head_size])
        inside = tf.range(length)[None] < tf.cast(tf.reshape(lengths, [-1, 1]), tf.int32)
        return tf.transpose(found * tf.cast(inside, found.dtype)[:, :, None, None], [0, 2, 1, 3])

    def get_config(self) -> dict[str, Any]:
        own = {
            name: getattr(self, name)
            for name in (
                *("output_layer_size", "max_batch_size", "use_scale", "num_attention_heads", "attention_head_size"),
                *("sequences_per_iter", "attention_dropout_prob", "output_dropout_prob", "layer_norm_output"),
            )
        }
        own |= {
            name: keras.activations.serialize(getattr(self, name)) for name in ("qkv_activation", "output_activation")
        }
        own |= {name: keras.initializers.serialize(getattr(self, name)) for name in _INITIALIZERS}
        return {**super().get_config(), **own}


def _copy(initializer: Any) -> Any:
    """One of its own for each layer: an initializer that is used twice draws the same numbers twice."""
    return initializer.clone() if hasattr(initializer, "clone") else initializer


def _check_count(inputs: Any) -> None:
    """Of inputs, or of their shapes."""
    if not 4 <= len(inputs) <= 5:
        raise ValueError(
            f"An EffectiveTransformer has sequences and lengths to look from and to look at, and on request a mask of "
            f"heads: 4 or 5 inputs, not {len(inputs)}."
        )


def _check(source: Any, source_lengths: Any, target: Any, target_lengths: Any) -> None:
    if source.shape.rank != target.shape.rank:
        raise ValueError(
            f"from_sequences and to_sequences must be equal rank, and they have the shapes {source.shape} and "
            f"{target.shape}."
        )
    if source.shape[0] != target.shape[0]:
        raise ValueError(
            f"from_sequences and to_sequences must contain an equal number of sequences, and they have "
            f"{source.shape[0]} and {target.shape[0]}."
        )
    if source_lengths.shape[0] != source.shape[0] or source_lengths.shape != target_lengths.shape:
        raise ValueError(
            "from_sequence_lengths and to_sequence_lengths must have lengths equal to the number of sequences "
            f"provided, which is {source.shape[0]}: they have the shapes {source_lengths.shape} and "
            f"{target_lengths.shape}."
        )
    if source.dtype != target.dtype:
        raise ValueError(
            f"from_sequences and to_sequences must be equal types, and they are {source.dtype.name} and "
            f"{target.dtype.name}."
        )
