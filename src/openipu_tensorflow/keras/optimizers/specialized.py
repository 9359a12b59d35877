"""Adam, SGD and RMSprop with automatic loss scaling, whose half gradients are unscaled in float.

Adam and SGD keep their state in float as well; that of RMSprop has the format of its variable.
"""

from __future__ import annotations

from typing import Any

import keras

import tensorflow as tf
from openipu_tensorflow.addons.keras.optimizers import AdamIpuOptimizer, SGDIpuOptimizer
from openipu_tensorflow.keras.optimizers.loss_scaling import ALSOptimizer


class _Specialized(ALSOptimizer):
    """Made of the settings of its optimizer, then those of `ALSOptimizer`."""

    def __init__(self, opt: Any, own: dict[str, Any], *settings: Any, name: str, **kwargs: Any) -> None:
        super().__init__(opt, *settings, **{"name": name, **kwargs})
        self._own = own

    def _unscale(self, gradient: Any, factor: Any) -> Any:
        return tf.cast(gradient, tf.float32) / factor

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["opt"]
        return {**config, **self._own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return cls(**config)


class _Adam(AdamIpuOptimizer):
    """As Keras has it: `epsilon` is added to the root of the second moment before its bias is taken out."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        m, v = self.advance(gradient, variable)
        bias = tf.sqrt(1 - tf.pow(tf.cast(self.beta_2, tf.float32), self.count_steps()))
        step = tf.cast(learning_rate, tf.float32) * m / (tf.sqrt(v) + self.epsilon / bias)
        variable.assign(tf.convert_to_tensor(variable) - tf.cast(step, variable.dtype))


@keras.saving.register_keras_serializable("openipu")
class ALSOptimizerAdam(_Specialized):
    """Adam."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        *settings: Any,
        name: str = "ALSOptimizerAdam",
        **kwargs: Any,
    ) -> None:
        own = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        inner = _Adam(**own, m_dtype=tf.float32, v_dtype=tf.float32)
        super().__init__(inner, own, *settings, name=name, **kwargs)


@keras.saving.register_keras_serializable("openipu")
class ALSOptimizerSGD(_Specialized):
    """Gradient descent with momentum."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        *settings: Any,
        name: str = "ALSOptimizerSGD",
        **kwargs: Any,
    ) -> None:
        own = {"learning_rate": learning_rate, "momentum": momentum}
        super().__init__(SGDIpuOptimizer(**own, momentum_accum_dtype=tf.float32), own, *settings, name=name, **kwargs)


@keras.saving.register_keras_serializable("openipu")
class ALSOptimizerRMSProp(_Specialized):
    """RMSprop."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        *settings: Any,
        name: str = "ALSOptimizerRMSProp",
        **kwargs: Any,
    ) -> None:
        own = {
            "learning_rate": learning_rate,
            "rho": rho,
            "momentum": momentum,
            "epsilon": epsilon,
            "centered": centered,
        }
        super().__init__(keras.optimizers.RMSprop(**own), own, *settings, name=name, **kwargs)
