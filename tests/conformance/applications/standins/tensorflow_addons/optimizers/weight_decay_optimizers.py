"""Weights that shrink at each update, by a share that neither gradients nor the learning rate change."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class DecoupledWeightDecayExtension:
    """Stands before an optimizer of Keras among the bases of a class. `weight_decay`: a number, or a schedule of it."""

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.decoupled_weight_decay = weight_decay

    def _resource_apply_dense(self: Any, grad: Any, var: Any, apply_state: Any = None) -> Any:
        share = self.decoupled_weight_decay
        value = share(tf.convert_to_tensor(self.iterations)) if callable(share) else share
        var.assign_sub(tf.cast(value, var.dtype) * tf.convert_to_tensor(var))
        return super()._resource_apply_dense(grad, var, apply_state)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base: Any) -> Any:
    """A class that decays weights before each of `base`'s updates."""
    return type(f"{base.__name__}W", (DecoupledWeightDecayExtension, base), {})
