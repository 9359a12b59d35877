"""`ALSOptimizer`: the loss is scaled so that half gradients neither vanish nor overflow.

In: gradients of a scaled loss. Out: an update by unscaled ones; the scale follows from how many of the half gradients
of the last updates were too large. Its state is one variable, and what a micro-batch adds to it is marked like a
gradient: so steps are cut, accumulated and replicated as with any other optimizer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.engine.marks import mark_gradients
from openipu_tensorflow.keras.optimizers.wrapping import WrappingOptimizer

_SETTINGS = (
    *("initial_loss_scaling_factor", "update_frequency", "increase_factor", "max_loss_scaling_factor"),
    *("accumulate_statistics_over_update_period", "ratio_threshold", "captured_grads_only", "lpf_alpha"),
    "histogram_bin_edge",
)


class _ReadOnly(property):
    """What may be read."""

    def __set__(self, owner: Any, value: Any) -> None:
        assert self.fget is not None
        raise ValueError(f"{self.fget.__name__} is a read only property.")


@keras.saving.register_keras_serializable("openipu")
class ALSOptimizer(WrappingOptimizer):
    """The optimizer `opt`, with automatic loss scaling."""

    supports_captured_grads = True

    def __init__(
        self,
        opt: Any,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 2**13,
        name: str = "ALSOptimizer",
    ) -> None:
        """The scale changes every `update_frequency` updates: it is divided by `increase_factor` if more than
        `ratio_threshold` of all half gradients reached `histogram_bin_edge`, and else multiplied."""
        super().__init__(opt, name)
        given = locals()
        for setting in _SETTINGS:
            setattr(self, setting, given[setting])
        _check(self)
        self._captured: Any = None
        self._counted: Any = None
        self._state = self.add_variable(shape=(5,), initializer=self._begin, dtype="float32", name="loss_scaling")

    def _begin(self, shape: Sequence[int] = (5,), dtype: Any = None) -> Any:
        """The factor, the one before it, updates since it changed, gradients within bounds, and beyond them."""
        factor = float(self.initial_loss_scaling_factor)
        return tf.constant([factor, factor, 0.0, 0.0, 0.0], dtype=dtype or "float32")

    def reset(self) -> None:
        """Begin again with the first factor and no statistics."""
        self._state.assign(self._begin())

    @_ReadOnly
    def loss_scaling_factor(self) -> Any:
        return tf.convert_to_tensor(self._state)[0]

    @_ReadOnly
    def previous_loss_scaling_factor(self) -> Any:
        return tf.convert_to_tensor(self._state)[1]

    @_ReadOnly
    def update_counter(self) -> Any:
        return tf.cast(tf.convert_to_tensor(self._state)[2], tf.int32)

    @_ReadOnly
    def histogram(self) -> Any:
        return tf.convert_to_tensor(self._state)[3:]

    @_ReadOnly
    def normalized_histogram(self) -> Any:
        return tf.math.divide_no_nan(self.histogram, tf.reduce_sum(self.histogram))

    @_ReadOnly
    def decrease_factor(self) -> float:
        return 1.0 / float(self.increase_factor)

    def scale_loss(self, loss: Any) -> Any:
        """Keras asks for this before it differentiates."""
        value = tf.convert_to_tensor(loss)
        return value * tf.cast(self.loss_scaling_factor, value.dtype)

    get_scaled_loss = scale_loss

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """Gradients of the scaled loss, in a graph."""
        held = [getattr(variable, "value", variable) for variable in params]
        return list(tf.gradients(self.scale_loss(loss), held))

    def minimize(self, loss: Any, var_list: Sequence[Any], tape: Any) -> Any:
        """Differentiate what a tape has recorded, and update."""
        seed = tf.cast(self.loss_scaling_factor, loss.dtype) * tf.ones_like(loss)
        held = [getattr(variable, "value", variable) for variable in var_list]
        return self.apply_gradients(zip(tape.gradient(loss, held, output_gradients=seed), var_list, strict=True))

    def apply_gradients(self, grads_and_vars: Any, captured_grads: Any = None) -> Any:
        """`captured_grads`: gradients of activations, by their tags, which count as well."""
        self._captured = captured_grads
        try:
            return super().apply_gradients(grads_and_vars)
        finally:
            self._captured = None

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Gradients are those of the scaled loss."""
        gradients = list(grads)
        counted = [*tf.nest.flatten(self._captured or {}), *([] if self.captured_grads_only else gradients)]
        (self._counted,) = mark_gradients([self._count(counted)], [self._state])
        return super().apply(gradients, trainable_variables)

    def _count(self, gradients: Sequence[Any]) -> Any:
        """What a micro-batch adds to the state: half gradients within bounds, and beyond them."""
        total, beyond = 0, tf.constant(0.0)
        for gradient in gradients:
            if gradient is not None and gradient.dtype == tf.float16:
                size = tf.abs(tf.cast(tf.convert_to_tensor(gradient), tf.float32))
                within = tf.reduce_sum(tf.cast(size < float(self.histogram_bin_edge), tf.float32))
                count = math.prod(gradient.shape)
                total, beyond = total + count, beyond + (count - within)  # no number is beyond bounds, too
        return tf.stack([0.0, 0.0, 0.0, total - beyond, beyond])

    def _backend_apply_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> None:
        """Between what Keras does before an update and after it."""
        state = tf.convert_to_tensor(self._state)
        unscaled = [self._unscale(tf.convert_to_tensor(gradient), state[0]) for gradient in grads]
        self._state.assign(self._advance(state, self._counted))
        self._counted = None
        self._opt.apply(unscaled, trainable_variables)

    def _unscale(self, gradient: Any, factor: Any) -> Any:
        return gradient / tf.cast(factor, gradient.dtype)

    def get_unscaled_gradients(self, grads: Any) -> Any:
        """Gradients of the loss itself."""
        factor = self.loss_scaling_factor
        return tf.nest.map_structure(lambda gradient: self._unscale(gradient, factor), grads)

    def _advance(self, state: Any, counted: Any) -> Any:
        factor, before, updates = state[0], state[1], state[2]
        due = tf.logical_and(updates > 0, tf.equal(tf.math.floormod(updates, float(self.update_frequency)), 0))
        due = tf.logical_or(due, tf.constant(self.update_frequency == 1))
        collects = tf.logical_or(due, tf.constant(bool(self.accumulate_statistics_over_update_period)))
        held = state[3:] + tf.cast(collects, tf.float32) * (1.0 - float(self.lpf_alpha)) * counted[3:]
        share = tf.math.divide_no_nan(held[1], held[0] + held[1])
        step = float(self.increase_factor)
        wanted = tf.where(share > float(self.ratio_threshold), factor / step, factor * step)
        fits = tf.logical_and(wanted < float(self.max_loss_scaling_factor), wanted >= 1.0)
        new = tf.where(tf.logical_and(due, fits), wanted, factor)
        counts = tf.where(due, tf.zeros_like(held), held)
        first = [new, tf.where(tf.equal(new, factor), before, factor), tf.where(due, 0.0, updates + 1.0)]
        return tf.concat([tf.stack(first), counts], axis=0)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **{name: getattr(self, name) for name in _SETTINGS}}


def _check(optimizer: Any) -> None:
    """Refuse settings that the original refuses."""
    if optimizer.update_frequency <= 0:
        raise ValueError(f"update_frequency must be nonzero and positive, not {optimizer.update_frequency}.")
    for name in ("increase_factor", "max_loss_scaling_factor", "initial_loss_scaling_factor"):
        value = getattr(optimizer, name)
        if value < 1 or value != int(value) or int(value) & (int(value) - 1):
            raise ValueError(f"{name} must be a power of two, not {value}.")
    first, most = optimizer.initial_loss_scaling_factor, optimizer.max_loss_scaling_factor
    if first >= most:
        raise ValueError(
            f"initial_loss_scaling_factor must be less than max_loss_scaling_factor, and is {first} of {most}."
        )
    if first * optimizer.increase_factor >= most:
        raise ValueError(
            "initial_loss_scaling_factor x increase_factor must be less than max_loss_scaling_factor, and is "
            f"{first * optimizer.increase_factor} of {most}."
        )
    if not 0 < optimizer.ratio_threshold < 1:
        raise ValueError(
            f"ratio_threshold must be greater than zero and less than one, not {optimizer.ratio_threshold}."
        )
