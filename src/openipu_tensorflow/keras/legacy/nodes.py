"""Names by which programs walk through a functional model: `tensor.ref()`, `tensor._keras_history.layer`,
`layer._name`, `input_layer.input`.

In: Keras 3's symbolic tensors and layers. Out: they have these, so that models can be copied with some layers changed.
"""

from __future__ import annotations

from typing import Any

import keras
from keras.src.ops.node import KerasHistory
from keras.src.ops.operation import Operation


class Reference:
    """A symbolic tensor as a key: equal to others of the same tensor."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def deref(self) -> Any:
        return self._tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._tensor is self._tensor

    def __hash__(self) -> int:
        return id(self._tensor)


def restore_names_of_nodes() -> None:
    keras.KerasTensor.ref = lambda self: Reference(self)
    KerasHistory.layer = property(lambda self: self.operation)
    keras.layers.InputLayer.input = property(lambda self: self.output)
    Operation._name = property(lambda self: self.name, lambda self, value: setattr(self, "name", value))
