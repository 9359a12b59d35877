"""What an update rule is given: one group of parameters, with gradients, state and hyper-parameters as tensors.

In: tensors of one group. Out: its parameters one after the other, in the type that their update computes in: float32
(float64 for float64 parameters), whatever parameters and state are stored in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

Slots = Mapping[str, torch.Tensor]  # state of one parameter by slot name
Updated = list[tuple[torch.Tensor, dict[str, torch.Tensor]]]


@dataclass(frozen=True)
class Member:
    """One parameter with what its update reads, in the type that its update computes in."""

    index: int
    gradient: torch.Tensor
    state: Slots
    stored: torch.Tensor  # the parameter as it is kept

    @cached_property
    def parameter(self) -> torch.Tensor:
        """The parameter to compute with. It is made when a rule first reads it: a copy need not live before that."""
        return self.stored.to(choose_working_dtype(self.stored.dtype))

    def read(self, slot: str) -> torch.Tensor:
        return self.state[slot].to(choose_working_dtype(self.stored.dtype))

    def keep(self, **state: torch.Tensor) -> dict[str, torch.Tensor]:
        """New state, in the types that it is kept in."""
        return {name: value.to(self.state[name].dtype) for name, value in state.items()}

    def finish(self, parameter: torch.Tensor, **state: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """New values, in the types that they are kept in."""
        return parameter.to(self.stored.dtype), self.keep(**state)


@dataclass(frozen=True)
class GroupUpdate:
    """One group to update. Gradients are those of the unscaled loss."""

    names: Sequence[str]
    parameters: Sequence[torch.Tensor]
    gradients: Sequence[torch.Tensor]
    slots: Sequence[Slots]
    hyper: Mapping[str, torch.Tensor]
    flags: frozenset[str]
    enter_module: Callable[[str], None]  # told which parameter's turn it is, for the notes

    def visit(self) -> Iterator[Member]:
        """One parameter after the other."""
        for index, name in enumerate(self.names):
            self.enter_module(name)
            stored = self.parameters[index]
            dtype = choose_working_dtype(stored.dtype)
            gradient = self.gradients[index].to(dtype)
            if "maximize" in self.flags:
                gradient = -gradient
            yield Member(index, gradient, self.slots[index], stored)

    def add_decay(self, member: Member) -> torch.Tensor:
        """The gradient with an L2 penalty's, where there is one."""
        if "weight_decay" not in self.flags:
            return member.gradient
        return member.gradient + member.parameter * self.hyper["weight_decay"]


def choose_working_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type to compute an update in."""
    return torch.float64 if dtype is torch.float64 else torch.float32
