"""The update rules, in plain torch: one group of parameters at a time.

In: a `GroupUpdate`: parameters, gradients and state as tensors, hyper-parameters as 0-dim tensors. Out: new parameters
and new state. Arithmetic is float32 (float64 for float64 parameters), whatever parameters and state are stored in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from openipu.graph import OptimizerKind

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


def update_sgd(group: GroupUpdate) -> Updated:
    """`torch.optim.SGD`. Momentum starts from zero, which equals torch's start from the gradient unless dampened.

    With the flag "velocity_scaling" the momentum is kept multiplied by that value, which a small type gains from.
    """
    hyper, flags = group.hyper, group.flags
    updated: Updated = []
    for member in group.visit():
        gradient = group.add_decay(member)
        new_state: dict[str, torch.Tensor] = {}
        if "momentum" in flags:
            fresh = gradient * (1 - hyper["dampening"]) if "dampening" in flags else gradient
            velocity = member.read("momentum_buffer")
            if "velocity_scaling" in flags:
                velocity = velocity / hyper["velocity_scaling"]
            velocity = velocity * hyper["momentum"] + fresh
            if "dampening" in flags:
                velocity = torch.where(member.state["step"] == 0, gradient, velocity)
            kept = velocity * hyper["velocity_scaling"] if "velocity_scaling" in flags else velocity
            new_state = {"momentum_buffer": kept}
            if "dampening" in flags:
                new_state["step"] = member.state["step"] + 1
            gradient = gradient + velocity * hyper["momentum"] if "nesterov" in flags else velocity
        updated.append(member.finish(member.parameter - gradient * hyper["lr"], **new_state))
    return updated


@dataclass(frozen=True)
class _Corrections:
    """What Adam's moments are divided by, for each parameter: every one counts its own steps.

    The scalars of a group are computed together, as vectors: a few ops instead of a few for each parameter.
    """

    steps: Sequence[torch.Tensor]
    first: torch.Tensor  # 1 - beta1 ** step, to full precision
    second_roots: Sequence[torch.Tensor]

    @classmethod
    def compute(cls, group: GroupUpdate) -> _Corrections | None:
        if "no_bias_correction" in group.flags:
            return None
        steps = torch.stack([state["step"] for state in group.slots]) + 1
        first = -torch.expm1(steps * group.hyper["log_beta1"])
        second = -torch.expm1(steps * group.hyper["log_beta2"])
        return cls(steps.unbind(), first, second.sqrt().unbind())


def _advance_moments(
    group: GroupUpdate, member: Member, gradient: torch.Tensor, corrections: _Corrections | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adam's moments, and the denominator of its step."""
    hyper = group.hyper
    first = member.read("exp_avg")
    first = first + (gradient - first) * hyper["beta1_rest"]
    second = member.read("exp_avg_sq") * hyper["beta2"] + gradient * gradient * hyper["beta2_rest"]
    root = second.sqrt()
    if corrections is not None:
        root = root / corrections.second_roots[member.index]
    return first, second, root + hyper["eps"]


def _collect_moments(
    first: torch.Tensor, second: torch.Tensor, corrections: _Corrections | None, index: int
) -> dict[str, torch.Tensor]:
    step = {} if corrections is None else {"step": corrections.steps[index]}
    return {"exp_avg": first, "exp_avg_sq": second, **step}


def update_adam(group: GroupUpdate) -> Updated:
    """`torch.optim.Adam`, and `AdamW` with the flag "decoupled_weight_decay"."""
    hyper = group.hyper
    corrections = _Corrections.compute(group)
    step_sizes = None if corrections is None else (hyper["lr"] / corrections.first).unbind()
    decoupled = "weight_decay" in group.flags and "decoupled_weight_decay" in group.flags
    decay = 1 - hyper["lr"] * hyper["weight_decay"] if decoupled else None
    updated: Updated = []
    for member in group.visit():
        gradient = member.gradient if decoupled else group.add_decay(member)
        first, second, denominator = _advance_moments(group, member, gradient, corrections)
        # State is rounded before the step is made, and the parameter read after it: of a large table few copies in
        # float32 are alive at a time.
        state = member.keep(**_collect_moments(first, second, corrections, member.index))
        step_size = hyper["lr"] if step_sizes is None else step_sizes[member.index]
        step = first / denominator * step_size
        parameter = member.parameter if decay is None else member.parameter * decay
        updated.append((member.finish(parameter - step)[0], state))
    return updated


def update_lamb(group: GroupUpdate) -> Updated:
    """LAMB (arXiv 1904.00962) with phi(z) = min(z, max_weight_norm). A norm of zero leaves the step as it is."""
    hyper = group.hyper
    corrections = _Corrections.compute(group)
    firsts = None if corrections is None else corrections.first.unbind()
    updated: Updated = []
    for member in group.visit():
        first, second, denominator = _advance_moments(group, member, member.gradient, corrections)
        unbiased = first if firsts is None else first / firsts[member.index]
        step = unbiased / denominator
        if "weight_decay" in group.flags:
            step = step + member.parameter * hyper["weight_decay"]
        weight_norm = torch.minimum(torch.linalg.vector_norm(member.parameter), hyper["max_weight_norm"])
        step_norm = torch.linalg.vector_norm(step)
        usable = (weight_norm != 0) & (step_norm != 0)
        trust = torch.where(usable, weight_norm / step_norm, torch.ones_like(step_norm))
        parameter = member.parameter - step * (hyper["lr"] * trust)
        updated.append(member.finish(parameter, **_collect_moments(first, second, corrections, member.index)))
    return updated


def update_rmsprop(group: GroupUpdate) -> Updated:
    """`torch.optim.RMSprop`; with "use_tf_variant" epsilon is under the root and momentum holds the learning rate."""
    hyper, flags = group.hyper, group.flags
    like_tensorflow = "use_tf_variant" in flags
    updated: Updated = []
    for member in group.visit():
        gradient = group.add_decay(member)
        square = member.read("square_avg") * hyper["alpha"] + gradient * gradient * hyper["alpha_rest"]
        new_state = {"square_avg": square}
        variance = square
        if "centered" in flags:
            mean = member.read("grad_avg")
            mean = mean + (gradient - mean) * hyper["alpha_rest"]
            new_state["grad_avg"] = mean
            variance = square - mean * mean
        root = (variance + hyper["eps"]).sqrt() if like_tensorflow else variance.sqrt() + hyper["eps"]
        step = gradient / root
        if like_tensorflow:
            step = step * hyper["lr"]
        if "momentum" in flags:
            step = member.read("momentum_buffer") * hyper["momentum"] + step
            new_state["momentum_buffer"] = step
        parameter = member.parameter - (step if like_tensorflow else step * hyper["lr"])
        updated.append(member.finish(parameter, **new_state))
    return updated


RULES: Mapping[OptimizerKind, Callable[[GroupUpdate], Updated]] = {
    OptimizerKind.SGD: update_sgd,
    OptimizerKind.ADAM: update_adam,
    OptimizerKind.ADAMW: update_adam,
    OptimizerKind.RMSPROP: update_rmsprop,
    OptimizerKind.LAMB: update_lamb,
}
