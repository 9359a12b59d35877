"""Update rules of stochastic gradient descent.

In: a `GroupUpdate`. Out: new parameters, and the momentum where there is one.

With g the gradient, w the weight, v the momentum (kept multiplied by `velocity_scaling`, s, which a small type gains
from), m its factor, d = 1 - dampening:

- as torch: g += decay w; v = m v + d g, but v = g in the first step; w -= lr v, or lr (g + m v) with Nesterov's;
- "always_dampened": the first step is dampened like all others, and so is a step without any momentum;
- "ahead": v is kept as the next step begins, m v + d s decay w, so that gradients could be added to it as they come.
  What the next step finds was then computed with this one's momentum, decay, dampening and scaling.
"""

from __future__ import annotations

import torch

from openipu.capture.optimizer.members import GroupUpdate, Member, Updated

VELOCITY = "momentum_buffer"


def update_sgd(group: GroupUpdate) -> Updated:
    """`torch.optim.SGD`. Momentum starts from zero, which equals torch's start from the gradient unless dampened."""
    if "ahead" in group.flags:
        return [_update_ahead(group, member) for member in group.visit()]
    hyper, flags = group.hyper, group.flags
    updated: Updated = []
    for member in group.visit():
        gradient = group.add_decay(member)
        new_state: dict[str, torch.Tensor] = {}
        if "momentum" in flags:
            fresh = gradient * (1 - hyper["dampening"]) if "dampening" in flags else gradient
            velocity = member.read(VELOCITY)
            if "velocity_scaling" in flags:
                velocity = velocity / hyper["velocity_scaling"]
            velocity = velocity * hyper["momentum"] + fresh
            counted = "dampening" in flags and "always_dampened" not in flags
            if counted:
                velocity = torch.where(member.state["step"] == 0, gradient, velocity)
            kept = velocity * hyper["velocity_scaling"] if "velocity_scaling" in flags else velocity
            new_state = {VELOCITY: kept}
            if counted:
                new_state["step"] = member.state["step"] + 1
            gradient = gradient + velocity * hyper["momentum"] if "nesterov" in flags else velocity
        elif "dampening" in flags and "always_dampened" in flags:
            gradient = gradient * (1 - hyper["dampening"])
        updated.append(member.finish(member.parameter - gradient * hyper["lr"], **new_state))
    return updated


def _update_ahead(group: GroupUpdate, member: Member) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    hyper, flags = group.hyper, group.flags
    scale = hyper["velocity_scaling"] if "velocity_scaling" in flags else None
    fresh = member.gradient if scale is None else member.gradient * scale
    if "dampening" in flags:
        fresh = fresh * (1 - hyper["dampening"])
    velocity = member.read(VELOCITY) + fresh
    step = velocity if scale is None else velocity / scale
    if "nesterov" in flags:
        step = group.add_decay(member) + step * hyper["momentum"]
    parameter = member.parameter - step * hyper["lr"]
    return member.finish(parameter, **{VELOCITY: look_ahead(group, velocity, parameter)})


def look_ahead(group: GroupUpdate, velocity: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The momentum that a step leaves behind as the next step is to find it."""
    hyper, flags = group.hyper, group.flags
    kept = velocity * hyper["momentum"]
    if "weight_decay" not in flags:
        return kept
    decay = parameter * hyper["weight_decay"]
    if "velocity_scaling" in flags:
        decay = decay * hyper["velocity_scaling"]
    return kept + (decay * (1 - hyper["dampening"]) if "dampening" in flags else decay)
