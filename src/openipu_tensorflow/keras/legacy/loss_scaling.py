"""`LossScaleOptimizer(optimizer, dynamic=False, initial_scale=128)` of Keras 2, which Keras 3 refuses.

In: Keras' class, or one derived from it, made so. Out: a loss that is scaled by a constant. That needs no state, so
that a step with it is cut at its gradients as without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras.src.optimizers.base_optimizer import BaseOptimizer

import tensorflow as tf

_USUAL = 2.0**15


class _Constant:
    """Methods of such an optimizer, by the names of Keras 3's that they stand for."""

    def build(self: Any, var_list: Sequence[Any]) -> None:
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(var_list)
        BaseOptimizer.build(self, var_list)

    def scale_loss(self: Any, loss: Any) -> Any:
        value = tf.convert_to_tensor(loss)
        return value * tf.cast(self.initial_scale, value.dtype)

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Gradients are those of the scaled loss."""
        return BaseOptimizer.apply(self, grads, trainable_variables)

    def _backend_apply_gradients(self: Any, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        self.inner_optimizer.apply(self.get_unscaled_gradients(grads), trainable_variables)

    def get_config(self: Any) -> dict[str, Any]:
        inner = keras.saving.serialize_keras_object(self.inner_optimizer)
        config = {"name": self.name, "inner_optimizer": inner, "initial_scale": self.initial_scale}
        return {**config, "dynamic": False}


def get_unscaled_gradients(self: Any, grads: Sequence[Any]) -> list[Any]:
    """Gradients of the loss itself. Classes of programs override it."""
    return [None if gradient is None else gradient / tf.cast(self.initial_scale, gradient.dtype) for gradient in grads]


def restore_constant_loss_scaling() -> None:
    """Let Keras' class take Keras 2's arguments: (optimizer, dynamic, initial_scale, dynamic_growth_steps)."""
    kind = keras.mixed_precision.LossScaleOptimizer
    original = kind.__init__

    @functools.wraps(original)
    def initialize(self: Any, inner_optimizer: Any, *args: Any, **kwargs: Any) -> None:
        given = _read_arguments(args, kwargs)
        dynamic = bool(given.pop("dynamic", True))
        scale = given.get("initial_scale", _USUAL)
        if not dynamic and scale <= 0:
            raise ValueError(f"A loss is scaled by a positive number, not by {scale}.")
        original(self, inner_optimizer, **given)
        object.__setattr__(self, "dynamic", dynamic)

    kind.__init__ = initialize
    kind.dynamic = True
    kind.get_scaled_loss = lambda self, loss: self.scale_loss(loss)
    kind.get_unscaled_gradients = get_unscaled_gradients
    for name, ours in vars(_Constant).items():
        if callable(ours):
            setattr(kind, name, _choose(getattr(kind, name), ours))


def _choose(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (original if self.dynamic else ours)(self, *args, **kwargs)

    return method


def _read_arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """By name. A second positional argument that is a bool is Keras 2's `dynamic`."""
    names = ["initial_scale", "dynamic_growth_steps", "name"]
    if args and isinstance(args[0], bool):
        names = ["dynamic", *names]
    if len(args) > len(names):
        raise TypeError(f"LossScaleOptimizer takes at most {len(names) + 1} arguments, and was given {len(args) + 1}.")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return {name: value for name, value in given.items() if value is not None}
