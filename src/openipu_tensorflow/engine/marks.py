"""Marks the gradients of a graph while it is traced, so that the step can be cut there.

In: gradients and their variables, as an optimizer is given them. Out: the same gradients, by way of marked ops.
TensorFlow 1's optimizers need no marks: their updates are ops with the gradient as an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf
from openipu.translate.tensorflow.steps import GRADIENT_MARK

_applying: ContextVar[bool] = ContextVar("applying", default=False)


def is_applying_marked() -> bool:
    """Does an optimizer apply gradients that are marked? A program reduces those over its replicas itself."""
    return _applying.get()


def mark_gradients(gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Gradients to hand on to an optimizer; None where there was none. Sparse ones become dense, as on an IPU."""
    from tensorflow.core.framework import attr_value_pb2

    marked: list[Any] = []
    for gradient, variable in zip(gradients, variables, strict=True):
        if gradient is None or tf.executing_eagerly():
            marked.append(gradient)
            continue
        value = attr_value_pb2.AttrValue(s=identify(variable).encode())
        dense = tf.convert_to_tensor(gradient)
        with tf.compat.v1.get_default_graph()._attr_scope({GRADIENT_MARK: value}):
            marked.append(tf.raw_ops.Identity(input=dense))
    return marked


def identify(variable: Any) -> str:
    """What marks call a variable, TensorFlow's own or one of Keras."""
    inner = getattr(variable, "_value", None)
    held = inner if isinstance(inner, tf.Variable) else variable
    return str(held._unique_id)


@contextmanager
def marking_optimizers() -> Iterator[None]:
    """While this lasts, Keras optimizers mark the gradients that they are given; one inside another does not again."""
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    original = BaseOptimizer.apply

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if _applying.get():
            return original(self, grads, trainable_variables)
        targets = self._trainable_variables if trainable_variables is None else trainable_variables
        token = _applying.set(True)
        try:
            return original(self, mark_gradients(list(grads), list(targets)), trainable_variables)
        finally:
            _applying.reset(token)

    BaseOptimizer.apply = apply
    try:
        yield
    finally:
        BaseOptimizer.apply = original
