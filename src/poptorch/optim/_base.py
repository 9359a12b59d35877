"""What poptorch's optimizers add to torch's: extra arguments, and which values may change after compilation.

In: the arguments of a constructor; those left at None have their default and are constant. Out: a torch optimizer with
the extra arguments as attributes, which copies and pickles keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, ClassVar

import torch

from poptorch._optimizer.state import StateKeeper

EXTRA_ARGUMENTS = {
    "loss_scaling": "acts: the loss is multiplied by it before backward, and gradients are divided by it in the update",
    "velocity_scaling": "acts with use_combined_accum: what the stored momentum is multiplied by",
    "use_combined_accum": "acts: the momentum is stored in the type of the weight and multiplied by velocity_scaling",
    "accum_type": "acts: the type in which gradients of several micro-batches are added up",
    "velocity_accum_type": "acts: the type of the momentum",
    "first_order_momentum_accum_type": "acts: the type of the first moment",
    "second_order_momentum_accum_type": "acts: the type of the second moment",
    "max_grad_norm": "acts: gradients are clipped to this global norm",
    "bias_correction": "acts: False leaves out the correction of the moments",
    "use_tf_variant": "acts: RMSprop as TensorFlow has it",
}
ACCUMULATION: dict[str, Any] = {
    "accum_type": torch.float32,
    "first_order_momentum_accum_type": torch.float32,
    "second_order_momentum_accum_type": torch.float32,
}
CLIPPING: dict[str, Any] = {"max_grad_norm": inf}
_ACCUMULATION_TYPES = (torch.float32, torch.float16)


class VariableAttributes:
    """Which attributes may change after compilation; the others are constants of the compiled program."""

    def __init__(self, variable_attributes: Iterable[str], allowed_attributes: Iterable[str]) -> None:
        self._variable_attributes = list(variable_attributes)
        self._allowed_attributes = list(allowed_attributes)

    def isConstant(self, attr: str) -> bool:
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        self._check(attr)
        self._variable_attributes = [name for name in self._variable_attributes if name != attr]

    def markAsVariable(self, attr: str) -> None:
        self._check(attr)
        if attr not in self._variable_attributes:
            self._variable_attributes.append(attr)

    def _check(self, attr: str) -> None:
        known = ", ".join(self._allowed_attributes)
        assert attr in self._allowed_attributes, f"Unknown attribute {attr}. Allowed attributes are {known}"


class Optimizer(StateKeeper):
    """Comes before a torch optimizer among the bases of each class of `poptorch.optim`."""

    extra_arguments: ClassVar[Mapping[str, Any]] = {}  # name -> default
    variable_attrs: VariableAttributes
    loss_scaling: float
    defaults: dict[str, Any]
    param_groups: list[dict[str, Any]]

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles keep the extra arguments and the device's state, which torch's own state leaves out."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        kept = ("variable_attrs", *self.extra_arguments)
        return {**state, **{name: getattr(self, name) for name in kept}, **self.copy_device_state()}

    def _start(self, parent: type[torch.optim.Optimizer], given: Mapping[str, Any]) -> None:
        """Pass what was given on to the parent, and keep the extra arguments, checked."""
        own = self.extra_arguments
        parent.__init__(self, **{name: value for name, value in given.items() if name not in own})  # type: ignore
        for name, default in own.items():
            setattr(self, name, given.get(name, default))
            if name.endswith("accum_type"):
                chosen = getattr(self, name)
                assert chosen in _ACCUMULATION_TYPES, "Accumulation types must be either torch.float32 or torch.float16"
        self.variable_attrs = VariableAttributes(given, [*self.defaults, "loss_scaling"])


def list_given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a constructor was called with, from its `locals()`: without self and what was left at None."""
    return {name: value for name, value in arguments.items() if name not in ("self", "__class__") and value is not None}


def refuse_amsgrad(amsgrad: bool | None) -> None:
    if amsgrad:
        raise ValueError("Only non-amsgrad Adam/AdamW optimizers are supported.")
