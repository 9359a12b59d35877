"""`LAMBIpuOptimizer`"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from openipu_tensorflow.addons.keras.optimizers.moments import MomentOptimizer


class LAMBIpuOptimizer(MomentOptimizer):
    """Adam's step, with weight decay, as long as the weights are: layer by layer."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        debiasing: bool = True,
        m_dtype: Any = None,
        v_dtype: Any = None,
        weight_norm_clip: float | None = None,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32, tf.float32),
        **kwargs: Any,
    ) -> None:
        if len(optimizer_compute_precisions) != 2:
            raise ValueError(
                "Must provide a list of two elements for the optimizer compute precision. The final stage of the "
                "weight update can be done in a different precision to the initial stage."
            )
        super().__init__(
            learning_rate,
            beta_1,
            beta_2,
            epsilon,
            name,
            m_dtype,
            v_dtype,
            debiasing,
            optimizer_compute_precisions=optimizer_compute_precisions,
            **kwargs,
        )
        self.weight_decay_rate, self.weight_norm_clip = weight_decay_rate, weight_norm_clip
        self.exclude_from_weight_decay = list(exclude_from_weight_decay or ())
        self.exclude_from_layer_adaptation = list(exclude_from_layer_adaptation or ())

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        kind, last = self.opt_dtypes
        m, v = self.advance(gradient, variable)
        weights = tf.convert_to_tensor(variable)
        step = m / (tf.sqrt(v) + self.epsilon)
        if all(map(self._do_use_weight_decay, _list_names(variable))):
            step = step + tf.cast(weights, kind) * self.weight_decay_rate
        ratio = tf.cast(learning_rate, kind)
        if all(map(self._do_layer_adaptation, _list_names(variable))):
            ratio = ratio * self._compare(tf.cast(weights, kind), step)
        change = tf.cast(ratio, last) * tf.cast(step, last)
        variable.assign(weights - tf.cast(change, variable.dtype))

    def _do_use_weight_decay(self, param_name: str) -> bool:
        return not any(re.search(pattern, param_name) for pattern in self.exclude_from_weight_decay)

    def _do_layer_adaptation(self, param_name: str) -> bool:
        return not any(re.search(pattern, param_name) for pattern in self.exclude_from_layer_adaptation)

    def _compare(self, weights: Any, step: Any) -> Any:
        """The length of the weights over that of the step; 1 where either is 0."""
        length, taken = tf.norm(weights), tf.norm(step)
        if self.weight_norm_clip is not None:
            length = tf.minimum(length, tf.cast(self.weight_norm_clip, length.dtype))
        one = tf.ones_like(length)
        both = tf.logical_and(length > 0, taken > 0)
        return tf.where(both, length / tf.where(both, taken, one), one)

    def get_config(self) -> dict[str, Any]:
        own = {
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": self.exclude_from_weight_decay,
            "exclude_from_layer_adaptation": self.exclude_from_layer_adaptation,
            "weight_norm_clip": self.weight_norm_clip,
        }
        return {**super().get_config(), **own}


def _list_names(variable: Any) -> list[str]:
    return [str(variable.name), str(getattr(variable, "path", ""))]
