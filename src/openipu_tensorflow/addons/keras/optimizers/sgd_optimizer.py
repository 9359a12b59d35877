"""`SGDIpuOptimizer`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from openipu_tensorflow.addons.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase, name_dtype


class SGDIpuOptimizer(IpuOptimizerBase):
    """Gradient descent with momentum, whose state has a format of its own."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        if not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        self.momentum, self.nesterov, self.momentum_accum_dtype = momentum, nesterov, momentum_accum_dtype

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self.momentums = self.add_state(variables, "momentum", self.momentum_accum_dtype) if self.momentum else []

    def list_slots(self) -> dict[str, Sequence[Any]]:
        return {"momentum": self.momentums} if self.momentum else {}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        kind = self.opt_dtypes[0]
        slope, rate = tf.cast(gradient, kind), tf.cast(learning_rate, kind)
        change = -rate * slope
        if self.momentum:
            held = self.find_state(self.momentums, variable)
            speed = tf.cast(tf.convert_to_tensor(held), kind) * self.momentum + change
            held.assign(tf.cast(speed, held.dtype))
            change = speed * self.momentum + change if self.nesterov else speed
        variable.assign(tf.convert_to_tensor(variable) + tf.cast(change, variable.dtype))

    def get_config(self) -> dict[str, Any]:
        own = {
            "momentum": self.momentum,
            "nesterov": self.nesterov,
            "momentum_accum_dtype": name_dtype(self.momentum_accum_dtype),
        }
        return {**super().get_config(), **own}
