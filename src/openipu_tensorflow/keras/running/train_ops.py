"""Updates by optimizers of Keras as ops, for programs of TensorFlow 1.

In: a computation that is traced. Out: while it lasts, `apply_gradients` returns an op that comes after all that it
writes, as that of TensorFlow 1's time did; Keras 3 returns a variable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def returning_train_ops() -> Iterator[None]:
    """While this lasts, updates can be returned like those of other optimizers."""
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    original = BaseOptimizer.apply_gradients

    def apply_gradients(self: Any, grads_and_vars: Any) -> Any:
        graph = tf.compat.v1.get_default_graph()
        start = graph.version
        returned = original(self, grads_and_vars)
        made = graph.get_operations()[start:]
        written = [op for op in made if op.op_def.is_stateful and not op.outputs]
        return tf.group(*written) if written else returned

    BaseOptimizer.apply_gradients = apply_gradients
    try:
        yield
    finally:
        BaseOptimizer.apply_gradients = original
