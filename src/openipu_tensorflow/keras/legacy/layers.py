"""Keras 2's arguments of `add_weight`: the name first, `experimental_autocast=False`; and names with slashes.

In: calls with such arguments. Out: Keras 3's own arguments, or none where they chose between ways of the same.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
from keras.src.ops.operation import Operation

_WITHOUT_EFFECT = ("use_resource", "synchronization", "partitioner", "caching_device", "getter", "collections")


def add_weight(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """`use_resource`, `synchronization` and the like say how TensorFlow keeps a variable: here it is one way."""
    names = ("name", "shape", "dtype", "initializer", "regularizer", "trainable", "constraint")
    if args and isinstance(args[0], str):  # Keras 3's first one is a shape
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
        args = ()
    if "experimental_autocast" in kwargs:
        kwargs["autocast"] = kwargs.pop("experimental_autocast")
    kwargs = {name: value for name, value in kwargs.items() if name not in _WITHOUT_EFFECT}
    if not isinstance(kwargs.get("aggregation", "none"), str):
        kwargs["aggregation"] = kwargs["aggregation"].name.lower().replace("_", "")
    return original(self, *args, **kwargs)


def allow_slashes() -> None:
    """Let `name="decoder/embeddings"` be a name, with "_" for each "/", which Keras 3 keeps for paths of variables."""
    original = Operation.__init__

    @functools.wraps(original)
    def initialize(self: Any, name: str | None = None) -> None:
        original(self, name=name.replace("/", "_") if isinstance(name, str) else name)

    Operation.__init__ = initialize


def restore_arguments_of_layers() -> None:
    allow_slashes()
    original = keras.layers.Layer.add_weight

    @functools.wraps(original)
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        return add_weight(original, self, *args, **kwargs)

    keras.layers.Layer.add_weight = changed
