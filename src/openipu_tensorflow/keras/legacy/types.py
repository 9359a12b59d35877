"""Types and shapes of variables and symbolic tensors, which were TensorFlow's own objects in Keras 2.

In: `variable.dtype`, a text in Keras 3, and `tensor.shape`, a tuple. Out: the same text and tuple, which also have what
programs ask `tf.DType` and `tf.TensorShape` for: `dtype.size`, `shape.as_list()`, `tensor.get_shape()`.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras.src.backend.common.variables import Variable

import tensorflow as tf


class TypeName(str):
    """ "float32" that answers as `tf.float32` does."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(tf.as_dtype(str(self)), name)


class Shape(tuple[int | None, ...]):
    """A tuple that answers as `tf.TensorShape` does."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(tf.TensorShape(tuple(self)), name)


def restore_types() -> None:
    for kind in (Variable, keras.KerasTensor):
        _convert(kind, "dtype", TypeName)
        _convert(kind, "shape", Shape)
        kind.get_shape = lambda self: tf.TensorShape(tuple(self.shape))
    watch_variables()


def watch_variables() -> None:
    """Let `tf.GradientTape.watch` take variables of Keras, which were TensorFlow's."""
    original = tf.GradientTape.watch

    @functools.wraps(original)
    def watch(self: Any, tensor: Any) -> None:
        original(self, tf.nest.map_structure(lambda one: one.value if isinstance(one, Variable) else one, tensor))

    tf.GradientTape.watch = watch


def _convert(kind: Any, name: str, made: Any) -> None:
    """Let a property give its value as another type."""
    held = vars(kind)[name]
    setattr(kind, name, property(lambda self: made(held.fget(self)), held.fset, held.fdel, held.__doc__))
