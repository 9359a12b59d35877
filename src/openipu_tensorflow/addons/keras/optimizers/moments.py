"""The two moments of Adam and LAMB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from openipu_tensorflow.addons.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase, name_dtype


class MomentOptimizer(IpuOptimizerBase):
    """`debiasing`: moments are divided by what they lack after so many steps."""

    def __init__(
        self,
        learning_rate: Any,
        beta_1: float,
        beta_2: float,
        epsilon: float,
        name: str,
        m_dtype: Any,
        v_dtype: Any,
        debiasing: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.m_dtype, self.v_dtype, self.debiasing = m_dtype, v_dtype, debiasing

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self.m = self.add_state(variables, "m", self.m_dtype)
        self.v = self.add_state(variables, "v", self.v_dtype)

    def list_slots(self) -> dict[str, Sequence[Any]]:
        return {"m": self.m, "v": self.v}

    def advance(self, gradient: Any, variable: Any) -> tuple[Any, Any]:
        """Renew the moments; (first, second) without their bias, in the format of updates."""
        kind = self.opt_dtypes[0]
        first, second = self.find_state(self.m, variable), self.find_state(self.v, variable)
        slope = tf.cast(gradient, kind)
        m = tf.cast(tf.convert_to_tensor(first), kind) * self.beta_1 + slope * (1 - self.beta_1)
        v = tf.cast(tf.convert_to_tensor(second), kind) * self.beta_2 + tf.square(slope) * (1 - self.beta_2)
        first.assign(tf.cast(m, first.dtype))
        second.assign(tf.cast(v, second.dtype))
        if not self.debiasing:
            return m, v
        steps = self.count_steps()
        return m / (1 - tf.pow(tf.cast(self.beta_1, kind), steps)), v / (1 - tf.pow(tf.cast(self.beta_2, kind), steps))

    def get_config(self) -> dict[str, Any]:
        own = {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "m_dtype": name_dtype(self.m_dtype),
            "v_dtype": name_dtype(self.v_dtype),
            "debiasing": self.debiasing,
        }
        return {**super().get_config(), **own}
