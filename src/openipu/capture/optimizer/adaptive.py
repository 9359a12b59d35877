"""Update rules that divide a step by what earlier gradients were like: RMSProp, AdaGrad and AdaDelta.

In: a `GroupUpdate`. Out: new parameters and new state. All take momentum, and weight decay as an L2 penalty or, with
"decoupled_weight_decay", as a step of its own.
"""

from __future__ import annotations

import torch

from openipu.capture.optimizer.members import GroupUpdate, Member, Updated


def update_rmsprop(group: GroupUpdate) -> Updated:
    """`torch.optim.RMSprop`; with "use_tf_variant" epsilon is under the root and momentum holds the learning rate."""
    hyper, flags = group.hyper, group.flags
    like_tensorflow = "use_tf_variant" in flags
    updated: Updated = []
    for member in group.visit():
        gradient = _penalise(group, member)
        square = member.read("square_avg") * hyper["alpha"] + gradient * gradient * hyper["alpha_rest"]
        new_state = {"square_avg": square}
        variance = square
        if "centered" in flags:
            mean = member.read("grad_avg")
            mean = mean + (gradient - mean) * hyper["alpha_rest"]
            new_state["grad_avg"] = mean
            variance = square - mean * mean
        root = (variance + hyper["eps"]).sqrt() if like_tensorflow else variance.sqrt() + hyper["eps"]
        updated.append(_step(group, member, gradient / root, new_state))
    return updated


def update_adagrad(group: GroupUpdate) -> Updated:
    """`torch.optim.Adagrad` without a decaying learning rate."""
    updated: Updated = []
    for member in group.visit():
        gradient = _penalise(group, member)
        total = member.read("sum") + gradient * gradient
        updated.append(_step(group, member, gradient / (total.sqrt() + group.hyper["eps"]), {"sum": total}))
    return updated


def update_adadelta(group: GroupUpdate) -> Updated:
    """`torch.optim.Adadelta`; its rho is called alpha here."""
    hyper = group.hyper
    updated: Updated = []
    for member in group.visit():
        gradient = _penalise(group, member)
        square = member.read("square_avg") * hyper["alpha"] + gradient * gradient * hyper["alpha_rest"]
        delta = member.read("acc_delta")
        step = (delta + hyper["eps"]).sqrt() / (square + hyper["eps"]).sqrt() * gradient
        delta = delta * hyper["alpha"] + step * step * hyper["alpha_rest"]
        updated.append(_step(group, member, step, {"square_avg": square, "acc_delta": delta}))
    return updated


def _penalise(group: GroupUpdate, member: Member) -> torch.Tensor:
    return member.gradient if "decoupled_weight_decay" in group.flags else group.add_decay(member)


def _step(
    group: GroupUpdate, member: Member, step: torch.Tensor, state: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Momentum, decoupled decay and the learning rate.

    As TensorFlow's, momentum holds the learning rate already; decay is then not multiplied by it.
    """
    hyper, flags = group.hyper, group.flags
    scaled = "use_tf_variant" in flags and "momentum" in flags
    if scaled:
        step = step * hyper["lr"]
    if "momentum" in flags:
        step = member.read("momentum_buffer") * hyper["momentum"] + step
        state = {**state, "momentum_buffer": step}
    if "weight_decay" in flags and "decoupled_weight_decay" in flags:
        step = member.parameter * hyper["weight_decay"] + step
    return member.finish(member.parameter - (step if scaled else step * hyper["lr"]), **state)
