"""Keras 2's ways into an optimizer: `gradient_transformers`, `lr`, and an update that a program's class overrides.

In: `Adam(gradient_transformers=[f])`, where f takes and gives pairs of gradients and variables, `optimizer.lr`, and
classes whose `_resource_apply_dense(gradient, variable, apply_state)` changes what it hands on to that of Keras' class.
Out: Keras 3's optimizers do so.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import keras
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer

import tensorflow as tf

_RATE = "learning_rate"


def apply_dense(self: Any, grad: Any, var: Any, apply_state: Any = None) -> Any:
    """`_resource_apply_dense` of every optimizer: its own update of one variable."""
    rate = (apply_state or {}).get(_RATE)
    return self.update_step(grad, var, self._get_current_learning_rate() if rate is None else rate)


def get_rate(self: Any) -> Any:
    """`optimizer.lr`: the schedule, where there is one, as Keras 2 gave it; else the variable."""
    return self._learning_rate


def set_rate(self: Any, value: Any) -> None:
    self.learning_rate = value


def decayed_rate(self: Any, var_dtype: Any) -> Any:
    """`_decayed_lr`: the rate of the next update."""
    return tf.cast(self._get_current_learning_rate(), var_dtype)


def restore_optimizers() -> None:
    BaseOptimizer._decayed_lr = decayed_rate
    BaseOptimizer._resource_apply_dense = apply_dense
    BaseOptimizer.lr = property(get_rate, set_rate)
    _take_arguments()
    _transform_gradients()
    _update_by_overrides()


def _take_arguments() -> None:
    original = BaseOptimizer.__init__

    @functools.wraps(original)
    def initialize(self: Any, learning_rate: Any, *args: Any, **kwargs: Any) -> None:
        transformers = kwargs.pop("gradient_transformers", None)
        given = kwargs.pop("lr", None)
        rate = learning_rate if given is None else given
        decay = kwargs.pop("decay", None)
        if not callable(rate) and hasattr(rate, "__float__"):  # of NumPy, or a tensor
            rate = float(rate)
        if decay:
            rate = keras.optimizers.schedules.InverseTimeDecay(rate, decay_steps=1, decay_rate=decay)
        original(self, rate, *args, **kwargs)
        object.__setattr__(self, "gradient_transformers", list(transformers or []))

    BaseOptimizer.__init__ = initialize


def _transform_gradients() -> None:
    original = BaseOptimizer.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Sequence[Any], trainable_variables: Any = None) -> Any:
        """Of an update, so that what is added up over micro-batches are gradients as they come."""
        functions = getattr(self, "gradient_transformers", ())
        if functions:
            targets = list(self._trainable_variables if trainable_variables is None else trainable_variables)
            pairs = [pair for pair in zip(grads, targets, strict=True) if pair[0] is not None]
            for function in functions:
                pairs = list(function(pairs))
            grads, trainable_variables = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return original(self, grads, trainable_variables)

    BaseOptimizer.apply = apply


def _update_by_overrides() -> None:
    original = TFOptimizer._distributed_tf_update_step

    @functools.wraps(original)
    def update(self: Any, distribution: Any, grads_and_vars: Sequence[Any], learning_rate: Any) -> None:
        if type(self)._resource_apply_dense is apply_dense:
            original(self, distribution, grads_and_vars, learning_rate)
            return
        for gradient, variable in grads_and_vars:
            self._resource_apply_dense(gradient, variable, {_RATE: learning_rate})

    TFOptimizer._distributed_tf_update_step = update
