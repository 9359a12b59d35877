"""Group, instance and layer norms. Channels of a group are interleaved over all channels, unless told otherwise."""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.addons.keras.layers.refusing import refuse
from openipu_tensorflow.ipu.ops.normalization_ops import normalise_groups


class GroupNormalization(keras.layers.Layer):  # type: ignore[misc]
    """Mean 0 and variance 1 in each group of channels of each sample, then gamma and beta."""

    def __init__(
        self,
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        strided_channel_grouping: bool = True,
        trainable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self.groups, self.channels_axis = groups, channels_axis
        self.center, self.scale, self.epsilon = center, scale, epsilon
        self.beta_initializer = keras.initializers.get(beta_initializer or "zeros")
        self.gamma_initializer = keras.initializers.get(gamma_initializer or "ones")
        self.strided_channel_grouping = strided_channel_grouping
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: Any) -> None:
        shape = _check_shape(input_shape)
        if not -len(shape) <= self.channels_axis < len(shape):
            raise ValueError(f"Axis is out of bounds: channels_axis is {self.channels_axis}, and the input is {shape}.")
        channels = shape[self.channels_axis]
        groups = self._count_groups(channels)
        if groups > channels:
            raise ValueError(f"Invalid groups {groups} for {channels} channels.")
        if channels % groups:
            raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
        if self.channels_axis % len(shape) not in (1, len(shape) - 1):
            raise ValueError("Unsupported data format, group norm only supports NCHW and NHWC: axis 1, or the last.")
        self._add_parameters((channels,))

    def _add_parameters(self, shape: tuple[int, ...]) -> None:
        if self.scale:
            self.gamma = self.add_weight(name="gamma", shape=shape, initializer=self.gamma_initializer)
        if self.center:
            self.beta = self.add_weight(name="beta", shape=shape, initializer=self.beta_initializer)

    def _count_groups(self, channels: int) -> int:
        return self.groups

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        value = tf.convert_to_tensor(inputs)
        axis = self.channels_axis % value.shape.rank
        groups = self._count_groups(int(value.shape[axis]))
        made = normalise_groups(value, groups, axis, self.epsilon, self.strided_channel_grouping)
        shape = [1] * value.shape.rank
        shape[axis] = int(value.shape[axis])
        return self._apply(made, shape)

    def _apply(self, made: Any, shape: list[int]) -> Any:
        if self.gamma is not None:
            made = made * tf.reshape(tf.cast(self.gamma, made.dtype), shape)
        return made if self.beta is None else made + tf.reshape(tf.cast(self.beta, made.dtype), shape)

    def get_config(self) -> dict[str, Any]:
        own = {
            "groups": self.groups,
            "channels_axis": self.channels_axis,
            "center": self.center,
            "scale": self.scale,
            "epsilon": self.epsilon,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
            "strided_channel_grouping": self.strided_channel_grouping,
        }
        return {**super().get_config(), **own}


class InstanceNormalization(GroupNormalization):
    """Each channel is a group."""

    def __init__(self, channels_axis: int = -1, **kwargs: Any) -> None:
        kwargs = {name: value for name, value in kwargs.items() if name not in ("groups", "strided_channel_grouping")}
        super().__init__(0, channels_axis, **kwargs)

    def _count_groups(self, channels: int) -> int:
        return channels

    def get_config(self) -> dict[str, Any]:
        left_out = ("groups", "strided_channel_grouping")
        return {name: value for name, value in super().get_config().items() if name not in left_out}


class LayerNormalization(GroupNormalization):
    """Mean 0 and variance 1 over some axes of each sample, then gamma and beta of their sizes."""

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True,
        **kwargs: Any,
    ) -> None:
        if not isinstance(axis, int | list | tuple):
            raise ValueError(f"Expected an int or a list/tuple of ints for the argument 'axis', but got {axis!r}.")
        refuse(
            "LayerNormalization",
            {
                "beta_regularizer": beta_regularizer,
                "gamma_regularizer": gamma_regularizer,
                "beta_constraint": beta_constraint,
                "gamma_constraint": gamma_constraint,
            },
        )
        super().__init__(
            1, -1, center, scale, epsilon, beta_initializer, gamma_initializer, trainable=trainable, **kwargs
        )
        self.axis = axis if isinstance(axis, int) else list(axis)

    def _list_axes(self, rank: int) -> list[int]:
        given = [self.axis] if isinstance(self.axis, int) else self.axis
        for one in given:
            if not -rank <= one < rank:
                raise ValueError(f"Invalid axis: {one}")
        found = sorted(one % rank for one in given)
        if len(set(found)) != len(found):
            raise ValueError(f"Duplicate axis: {tuple(given)}")
        return found

    def build(self, input_shape: Any) -> None:
        shape = _check_shape(input_shape)
        axes = self._list_axes(len(shape))
        self._add_parameters(tuple(shape[axis] for axis in axes))

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        value = tf.convert_to_tensor(inputs)
        axes = self._list_axes(value.shape.rank)
        wide = tf.cast(value, tf.float32)
        centred = wide - tf.reduce_mean(wide, axes, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axes, keepdims=True)
        made = tf.cast(centred * tf.math.rsqrt(variance + self.epsilon), value.dtype)
        return self._apply(made, [int(value.shape[place]) if place in axes else 1 for place in range(value.shape.rank)])

    def get_config(self) -> dict[str, Any]:
        left_out = ("groups", "channels_axis", "strided_channel_grouping")
        kept = {name: value for name, value in super().get_config().items() if name not in left_out}
        return {**kept, "axis": self.axis}


def _check_shape(input_shape: Any) -> list[int]:
    shape = list(input_shape)
    if any(size is None for size in shape):
        raise ValueError(f"Input shape {tuple(shape)} is not fully defined: give the input a fixed batch_size.")
    return [int(size) for size in shape]


GroupNorm, InstanceNorm, LayerNorm = GroupNormalization, InstanceNormalization, LayerNormalization
