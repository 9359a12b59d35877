"""What the optimizers of the addons have in common: state in a number format of its own, updates in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

import tensorflow as tf


class IpuOptimizerBase(keras.optimizers.Optimizer):  # type: ignore[misc]
    """`optimizer_compute_precisions`: what updates are computed in."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        name: str | None = None,
        optimizer_compute_precisions: Sequence[Any] = (tf.float32,),
        outline_apply_gradients: bool = False,
        outline_apply_gradients_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """`outline_apply_gradients` lets updates share code: equal ops always share theirs in openipu's plan."""
        super().__init__(learning_rate=kwargs.pop("lr", learning_rate), name=name, **kwargs)
        self.opt_dtypes = tuple(tf.as_dtype(one) for one in optimizer_compute_precisions)
        self.outline_apply_gradients = outline_apply_gradients
        self.outline_apply_gradients_kwargs = dict(outline_apply_gradients_kwargs or {})

    def add_state(self, variables: Sequence[Any], name: str, dtype: Any) -> list[Any]:
        """Zeros for each variable, in a format of their own or in the variable's."""
        made = []
        for variable in variables:
            place = getattr(variable, "path", variable.name).replace("/", "_")  # two layers have a "bias" each
            kind = variable.dtype if dtype is None else tf.as_dtype(dtype).name
            made.append(self.add_variable(shape=variable.shape, dtype=kind, name=f"{place}_{name}"))
        return made

    def find_state(self, states: Sequence[Any], variable: Any) -> Any:
        """The state that belongs to a variable."""
        return states[self._get_variable_index(variable)]

    def list_slots(self) -> dict[str, Sequence[Any]]:
        """State by the original's names."""
        return {}

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """The state of a variable under one of the original's names."""
        slots = self.list_slots()
        if slot_name not in slots:
            raise ValueError(f"{type(self).__name__} has no slot {slot_name!r}: {', '.join(slots) or 'it has none'}.")
        return self.find_state(slots[slot_name], var)

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        """A setting, as the original calls it."""
        value = tf.convert_to_tensor(getattr(self, name))
        return value if dtype is None else tf.cast(value, dtype)

    def count_steps(self) -> Any:
        """Of this update, from 1, in the format that updates are computed in."""
        return tf.cast(tf.convert_to_tensor(self.iterations) + 1, self.opt_dtypes[0])

    def get_config(self) -> dict[str, Any]:
        own = {
            "optimizer_compute_precisions": [one.name for one in self.opt_dtypes],
            "outline_apply_gradients": self.outline_apply_gradients,
            "outline_apply_gradients_kwargs": self.outline_apply_gradients_kwargs,
        }
        return {**super().get_config(), **own}


def name_dtype(dtype: Any) -> str | None:
    """For a configuration."""
    return None if dtype is None else str(tf.as_dtype(dtype).name)
