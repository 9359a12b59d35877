"""`tf.layers` of TensorFlow 1: what TensorFlow still has of it, and batch norms, which it lacks."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as v1
from tensorflow.python.framework import tensor_util
from tensorflow.python.layers.base import Layer
from tensorflow.python.layers.layers import *  # noqa: F403


class BatchNormalization(Layer):  # type: ignore[misc]
    """Statistics of the batch in training, moving ones else. Their updates are in `tf.GraphKeys.UPDATE_OPS`."""

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        moving_mean_initializer: Any = None,
        moving_variance_initializer: Any = None,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """`fused` chose between two kernels, whose results are the same here: it is always the fused one."""
        super().__init__(name=name, trainable=trainable, **kwargs)
        refused = {"renorm": renorm, "virtual_batch_size": virtual_batch_size, "adjustment": adjustment}
        wanted = [option for option, value in refused.items() if value]
        if wanted:
            raise NotImplementedError(f"tf.layers.batch_normalization: {wanted[0]} is not supported. Leave it out.")
        self.axis, self.momentum, self.epsilon = axis[0] if isinstance(axis, list | tuple) else axis, momentum, epsilon
        self.center, self.scale = center, scale
        zeros, ones = v1.zeros_initializer(), v1.ones_initializer()
        self._first = {
            "gamma": gamma_initializer or ones,
            "beta": beta_initializer or zeros,
            "moving_mean": moving_mean_initializer or zeros,
            "moving_variance": moving_variance_initializer or ones,
        }
        self._limits = {
            "gamma": {"regularizer": gamma_regularizer, "constraint": gamma_constraint},
            "beta": {"regularizer": beta_regularizer, "constraint": beta_constraint},
        }

    def build(self, input_shape: Any) -> None:
        """Weights are float, for half inputs as well."""
        shape = v1.TensorShape(input_shape).as_list()
        channels = shape[self.axis]
        if channels is None:
            raise ValueError(f"The dimension {self.axis} of the inputs of {self.name} must be known: they are {shape}.")
        made = {}
        for name, first in self._first.items():
            moving = name.startswith("moving")
            if (name == "gamma" and not self.scale) or (name == "beta" and not self.center):
                continue
            made[name] = self.add_weight(
                name=name,
                shape=[channels],
                dtype=v1.float32,
                initializer=first,
                trainable=self.trainable and not moving,
                **self._limits.get(name, {}),
            )
        self.gamma, self.beta = made.get("gamma"), made.get("beta")
        self.moving_mean, self.moving_variance = made["moving_mean"], made["moving_variance"]
        self._channels = channels
        self.built = True

    def call(self, inputs: Any, training: Any = False) -> Any:
        known = tensor_util.constant_value(training) if v1.is_tensor(training) else bool(training)
        if known is None:
            raise NotImplementedError(
                "tf.layers.batch_normalization: `training` must be known when the graph is built. Give True or False."
            )
        rank = inputs.shape.rank
        last = self.axis in (-1, rank - 1)
        if not last and (rank != 4 or self.axis != 1):
            raise NotImplementedError(
                f"tf.layers.batch_normalization over axis {self.axis} of {rank}: it is to be the last one, or 1 of 4."
            )
        flat = inputs if rank == 4 else v1.reshape(inputs, [-1, 1, 1, self._channels])
        result, mean, variance = v1.nn.fused_batch_norm(
            flat,
            v1.ones([self._channels]) if self.gamma is None else self.gamma,
            v1.zeros([self._channels]) if self.beta is None else self.beta,
            mean=None if known else self.moving_mean,
            variance=None if known else self.moving_variance,
            epsilon=self.epsilon,
            data_format="NHWC" if last else "NCHW",
            is_training=bool(known),
        )
        if known:
            for held, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                self.add_update(v1.assign_sub(held, (held - new) * (1 - self.momentum)))
        return result if rank == 4 else v1.reshape(result, v1.shape(inputs))


def batch_normalization(inputs: Any, axis: int = -1, *args: Any, **kwargs: Any) -> Any:
    """The layer, made and called."""
    training, reuse = kwargs.pop("training", False), kwargs.pop("reuse", None)
    name = kwargs.pop("name", None)
    layer = BatchNormalization(axis, *args, **{**kwargs, "name": name, "_reuse": reuse, "_scope": name})
    return layer(inputs, training=training)


BatchNorm = BatchNormalization
batch_norm = batch_normalization
