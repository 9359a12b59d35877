"""An optimizer of Keras around another one, which does the updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras


class WrappingOptimizer(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Learning rate and steps are those of the optimizer inside."""

    def __init__(self, opt: Any, name: str) -> None:
        super().__init__(learning_rate=0.0, name=name)
        if not isinstance(opt, str | dict | keras.optimizers.Optimizer):
            raise ValueError(f"{name} must wrap an optimizer of Keras, not {opt!r}.")
        self._opt = keras.optimizers.get(opt)

    def build(self, variables: Sequence[Any]) -> None:
        if not self._opt.built:
            self._opt.build(variables)
        super().build(variables)

    @property
    def variables(self) -> list[Any]:
        return [*self._variables, *self._opt.variables]

    @property
    def learning_rate(self) -> Any:
        return self._opt.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._opt.learning_rate = value

    @property
    def iterations(self) -> Any:
        return self._opt.iterations

    def finalize_variable_values(self, var_list: Any) -> None:
        self._opt.finalize_variable_values(var_list)

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "opt": keras.saving.serialize_keras_object(self._opt)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        inner = keras.saving.deserialize_keras_object(config["opt"], custom_objects=custom_objects)
        return cls(**{**config, "opt": inner})
