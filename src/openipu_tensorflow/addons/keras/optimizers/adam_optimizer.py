"""`AdamIpuOptimizer`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from openipu_tensorflow.addons.keras.optimizers.ipu_optimizer_base import name_dtype
from openipu_tensorflow.addons.keras.optimizers.moments import MomentOptimizer


class AdamIpuOptimizer(MomentOptimizer):
    """Adam, or AMSGrad, with state in formats of its own."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        m_dtype: Any = None,
        v_dtype: Any = None,
        vhat_dtype: Any = None,
        debiasing: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, m_dtype, v_dtype, debiasing, **kwargs)
        self.amsgrad, self.vhat_dtype = amsgrad, vhat_dtype

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self.vhat = self.add_state(variables, "vhat", self.vhat_dtype) if self.amsgrad else []

    def list_slots(self) -> dict[str, Sequence[Any]]:
        return {**super().list_slots(), **({"vhat": self.vhat} if self.amsgrad else {})}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        kind = self.opt_dtypes[0]
        m, v = self.advance(gradient, variable)
        if self.amsgrad:
            largest = self.find_state(self.vhat, variable)
            v = tf.maximum(tf.cast(tf.convert_to_tensor(largest), kind), v)
            largest.assign(tf.cast(v, largest.dtype))
        step = tf.cast(learning_rate, kind) * m / (tf.sqrt(v) + self.epsilon)
        variable.assign(tf.convert_to_tensor(variable) - tf.cast(step, variable.dtype))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "amsgrad": self.amsgrad, "vhat_dtype": name_dtype(self.vhat_dtype)}
