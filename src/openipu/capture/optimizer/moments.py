"""Update rules with two moments of the gradient: Adam, AdamW, LAMB and AdaMax, with and without bias correction.

In: a `GroupUpdate`. Out: new parameters and new state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from openipu.capture.optimizer.members import GroupUpdate, Member, Updated


@dataclass(frozen=True)
class _Corrections:
    """What Adam's moments are divided by, for each parameter: every one counts its own steps.

    The scalars of a group are computed together, as vectors: a few ops instead of a few for each parameter.
    """

    steps: Sequence[torch.Tensor]
    first: torch.Tensor  # 1 - beta1 ** step, to full precision
    second_roots: Sequence[torch.Tensor] = ()

    @classmethod
    def compute(cls, group: GroupUpdate) -> _Corrections | None:
        if "no_bias_correction" in group.flags:
            return None
        steps = torch.stack([state["step"] for state in group.slots]) + 1
        first = -torch.expm1(steps * group.hyper["log_beta1"])
        if "log_beta2" not in group.hyper:
            return cls(steps.unbind(), first)
        second = -torch.expm1(steps * group.hyper["log_beta2"])
        return cls(steps.unbind(), first, second.sqrt().unbind())


@dataclass(frozen=True)
class _Moments:
    """Adam's moments of one parameter after a gradient, and the denominator of its step."""

    first: torch.Tensor
    second: torch.Tensor
    denominator: torch.Tensor

    @classmethod
    def advance(
        cls, group: GroupUpdate, member: Member, gradient: torch.Tensor, corrections: _Corrections | None
    ) -> _Moments:
        hyper = group.hyper
        first, second = member.read("exp_avg"), member.read("exp_avg_sq")
        if "scaled_state" in group.flags:
            first, second = first / hyper["loss_scaling"], second / hyper["loss_scaling"] / hyper["loss_scaling"]
        first = first + (gradient - first) * hyper["beta1_rest"]
        second = second * hyper["beta2"] + gradient * gradient * hyper["beta2_rest"]
        root = second.sqrt()
        if corrections is not None:
            root = root / corrections.second_roots[member.index]
        return cls(first, second, root + hyper["eps"])

    def collect(self, group: GroupUpdate, corrections: _Corrections | None, index: int) -> dict[str, torch.Tensor]:
        """The state to keep; with "scaled_state" that of the scaled loss, which a small type gains from."""
        step = {} if corrections is None else {"step": corrections.steps[index]}
        first, second = self.first, self.second
        if "scaled_state" in group.flags:
            scale = group.hyper["loss_scaling"]
            first, second = first * scale, second * scale * scale
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
        moments = _Moments.advance(group, member, gradient, corrections)
        # State is rounded before the step is made, and the parameter read after it: of a large table few copies in
        # float32 are alive at a time.
        state = member.keep(**moments.collect(group, corrections, member.index))
        step_size = hyper["lr"] if step_sizes is None else step_sizes[member.index]
        step = moments.first / moments.denominator * step_size
        parameter = member.parameter if decay is None else member.parameter * decay
        updated.append((member.finish(parameter - step)[0], state))
    return updated


def update_lamb(group: GroupUpdate) -> Updated:
    """LAMB (arXiv 1904.00962) with phi(z) = min(z, max_weight_norm). A norm of zero leaves the step as it is.

    Weight decay is part of the step; with the flag "l2_penalty", of the gradient. With "no_trust_ratio" steps are taken
    as they are.
    """
    hyper = group.hyper
    corrections = _Corrections.compute(group)
    firsts = None if corrections is None else corrections.first.unbind()
    penalised = "l2_penalty" in group.flags
    updated: Updated = []
    for member in group.visit():
        gradient = group.add_decay(member) if penalised else member.gradient
        moments = _Moments.advance(group, member, gradient, corrections)
        unbiased = moments.first if firsts is None else moments.first / firsts[member.index]
        step = unbiased / moments.denominator
        if "weight_decay" in group.flags and not penalised:
            step = step + member.parameter * hyper["weight_decay"]
        weight_norm = torch.minimum(torch.linalg.vector_norm(member.parameter), hyper["max_weight_norm"])
        step_norm = torch.linalg.vector_norm(step)
        usable = (weight_norm != 0) & (step_norm != 0)
        trust = torch.where(usable, weight_norm / step_norm, torch.ones_like(step_norm))
        if "no_trust_ratio" in group.flags:
            trust = torch.ones_like(step_norm)
        parameter = member.parameter - step * (hyper["lr"] * trust)
        updated.append(member.finish(parameter, **moments.collect(group, corrections, member.index)))
    return updated


def update_adamax(group: GroupUpdate) -> Updated:
    """AdaMax (arXiv 1412.6980): the second moment is the largest gradient so far. Epsilon is added to it in the
    step alone, where `torch.optim.Adamax` adds it to each gradient."""
    hyper, flags = group.hyper, group.flags
    corrections = _Corrections.compute(group)
    step_sizes = None if corrections is None else (hyper["lr"] / corrections.first).unbind()
    decoupled = "weight_decay" in flags and "decoupled_weight_decay" in flags
    scale = hyper["loss_scaling"] if "scaled_state" in flags else None
    updated: Updated = []
    for member in group.visit():
        gradient = member.gradient if decoupled else group.add_decay(member)
        first, largest = member.read("exp_avg"), member.read("exp_inf")
        if scale is not None:
            first, largest = first / scale, largest / scale
        first = first + (gradient - first) * hyper["beta1_rest"]
        largest = torch.maximum(largest * hyper["beta2"], gradient.abs())
        step_size = hyper["lr"] if step_sizes is None else step_sizes[member.index]
        parameter = member.parameter
        if decoupled:
            parameter = parameter - parameter * (hyper["lr"] * hyper["weight_decay"])
        parameter = parameter - first / (largest + hyper["eps"]) * step_size
        if scale is not None:
            first, largest = first * scale, largest * scale
        step = {} if corrections is None else {"step": corrections.steps[member.index]}
        updated.append(member.finish(parameter, exp_avg=first, exp_inf=largest, **step))
    return updated
