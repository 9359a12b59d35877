"""Norms of Keras as one op each, in place of the dozen that Keras writes them with.

In: a step that is traced. Out: while it lasts, a `BatchNormalization` becomes TensorFlow's fused op, with one op for
its gradient. Results are those of Keras: statistics are those of the batch, and the moving variance is not corrected
for the number of samples. Layers with masks, renormalisation or statistics of all replicas stay as they are. A
`LayerNormalization` over the last dimension becomes an op that TensorFlow does not have, and openipu does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.graphs.device_ops import add_device_op


@contextlib.contextmanager
def whole_norms() -> Iterator[None]:
    """While this lasts, norms are single ops."""
    original, original_rows = keras.layers.BatchNormalization.call, keras.layers.LayerNormalization.call

    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if mask is not None or not _is_plain(self, inputs):
            return original(self, inputs, training=training, mask=mask)
        return _normalise(self, inputs, bool(training) and self.trainable)

    def call_rows(self: Any, inputs: Any) -> Any:
        return _normalise_rows(self, inputs) if _has_plain_rows(self, inputs) else original_rows(self, inputs)

    keras.layers.BatchNormalization.call, keras.layers.LayerNormalization.call = call, call_rows
    try:
        yield
    finally:
        keras.layers.BatchNormalization.call, keras.layers.LayerNormalization.call = original, original_rows


def _has_plain_rows(layer: Any, inputs: Any) -> bool:
    rank = inputs.shape.rank
    last = layer.axis in (-1, rank - 1, [-1], [rank - 1], (-1,), (rank - 1,))
    known = inputs.shape.is_fully_defined() and inputs.dtype in (tf.float32, tf.float16)
    return last and known and not layer.rms_scaling


def _normalise_rows(layer: Any, inputs: Any) -> Any:
    shape = inputs.shape.as_list()
    rows, channels, options = [*shape[:-1], 1], shape[-1:], {"epsilon": layer.epsilon}
    scale = tf.cast(layer.gamma, tf.float32) if layer.scale else tf.ones(channels)
    offset = tf.cast(layer.beta, tf.float32) if layer.center else tf.zeros(channels)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def run(x: Any, scale: Any, offset: Any) -> Any:
        kinds = [(tf.float32, size) for size in (shape, rows, rows)]
        result, mean, inverse = add_device_op("IpuLayerNorm", [x, scale, offset], kinds, options)

        def backward(gradient: Any) -> Any:
            given = [gradient, x, scale, offset, mean, inverse]
            return add_device_op(
                "IpuLayerNormGrad", given, [(tf.float32, size) for size in (shape, channels, channels)]
            )

        return result, backward

    return tf.cast(run(tf.cast(inputs, tf.float32), scale, offset), layer.compute_dtype)


def _is_plain(layer: Any, inputs: Any) -> bool:
    if getattr(layer, "renorm", False) or layer.synchronized or not inputs.shape.is_fully_defined():
        return False
    rank = inputs.shape.rank
    return inputs.dtype in (tf.float32, tf.float16) and (
        layer.axis in (-1, rank - 1) or (rank == 4 and layer.axis == 1)
    )


def _normalise(layer: Any, inputs: Any, training: bool) -> Any:
    shape, last = inputs.shape.as_list(), layer.axis != 1 or inputs.shape.rank == 2
    channels = shape[-1 if last else 1]
    x = tf.cast(inputs, tf.float32)
    flat = x if len(shape) == 4 else tf.reshape(x, [-1, 1, 1, channels])
    scale = tf.cast(layer.gamma, tf.float32) if layer.scale else tf.ones([channels])
    offset = tf.cast(layer.beta, tf.float32) if layer.center else tf.zeros([channels])
    held = [tf.cast(value, tf.float32) for value in (layer.moving_mean, layer.moving_variance)]
    found = tf.raw_ops.FusedBatchNormV3(
        x=flat,
        scale=scale,
        offset=offset,
        mean=tf.zeros([0]) if training else held[0],
        variance=tf.zeros([0]) if training else held[1],
        epsilon=layer.epsilon,
        data_format="NHWC" if last else "NCHW",
        is_training=training,
    )
    if training:
        count = math.prod(shape) // channels
        new = found.batch_mean, found.batch_variance * ((count - 1) / count)
        for variable, old, value in zip((layer.moving_mean, layer.moving_variance), held, new, strict=True):
            variable.assign(old * layer.momentum + value * (1.0 - layer.momentum))
    result = found.y if len(shape) == 4 else tf.reshape(found.y, shape)
    return tf.cast(result, layer.compute_dtype)
