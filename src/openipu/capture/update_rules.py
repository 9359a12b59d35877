"""The update rules, in plain torch: one group of parameters at a time.

In: parameters, gradients and state as tensors, hyper-parameters as 0-dim tensors. Out: new parameters and new state.
Arithmetic is float32 (float64 for float64 parameters), whatever the parameters and the state are stored in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

Values = Mapping[str, torch.Tensor]  # hyper-parameters by name
Slots = Mapping[str, torch.Tensor]  # state of one parameter by slot name
Updated = list[tuple[torch.Tensor, dict[str, torch.Tensor]]]
EnterModule = Callable[[str], None]  # told which parameter's turn it is, for the notes


def update_sgd(
    names: Sequence[str],
    parameters: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    slots: Sequence[Slots],
    hyper: Values,
    flags: frozenset[str],
    enter_module: EnterModule,
) -> Updated:
    """`torch.optim.SGD`. Momentum starts from zero, which equals torch's start from the gradient unless dampened."""
    updated: Updated = []
    for name, stored, stored_gradient, state in zip(names, parameters, gradients, slots, strict=True):
        enter_module(name)
        dtype = _choose_working_dtype(stored)
        parameter, gradient = stored.to(dtype), _orient(stored_gradient, dtype, flags)
        new_state: dict[str, torch.Tensor] = {}
        if "weight_decay" in flags:
            gradient = gradient + parameter * hyper["weight_decay"]
        if "momentum" in flags:
            fresh = gradient * (1 - hyper["dampening"]) if "dampening" in flags else gradient
            buffer = state["momentum_buffer"].to(dtype) * hyper["momentum"] + fresh
            if "dampening" in flags:
                buffer = torch.where(state["step"] == 0, gradient, buffer)
                new_state["step"] = state["step"] + 1
            new_state = {"momentum_buffer": buffer.to(state["momentum_buffer"].dtype), **new_state}
            gradient = gradient + buffer * hyper["momentum"] if "nesterov" in flags else buffer
        updated.append(((parameter - gradient * hyper["lr"]).to(stored.dtype), new_state))
    return updated


def update_adam(
    names: Sequence[str],
    parameters: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    slots: Sequence[Slots],
    hyper: Values,
    flags: frozenset[str],
    enter_module: EnterModule,
) -> Updated:
    """`torch.optim.Adam`, and `AdamW` with the flag "decoupled_weight_decay"."""
    # Every parameter counts its own steps. The scalars of a group are computed together, as vectors: a few ops
    # instead of a few for each parameter.
    steps = torch.stack([state["step"] for state in slots]) + 1
    correction1 = -torch.expm1(steps * hyper["log_beta1"])  # 1 - beta1 ** step, to full precision
    correction2 = -torch.expm1(steps * hyper["log_beta2"])
    step_sizes = (hyper["lr"] / correction1).unbind()
    second_scales = correction2.sqrt().unbind()
    decoupled = "weight_decay" in flags and "decoupled_weight_decay" in flags
    decay = 1 - hyper["lr"] * hyper["weight_decay"] if decoupled else None
    updated: Updated = []
    for index, (name, step) in enumerate(zip(names, steps.unbind(), strict=True)):
        enter_module(name)
        stored, state = parameters[index], slots[index]
        dtype = _choose_working_dtype(stored)
        parameter, gradient = stored.to(dtype), _orient(gradients[index], dtype, flags)
        if decay is not None:
            parameter = parameter * decay
        elif "weight_decay" in flags:
            gradient = gradient + parameter * hyper["weight_decay"]
        first = state["exp_avg"].to(dtype)
        first = first + (gradient - first) * hyper["beta1_rest"]
        second = state["exp_avg_sq"].to(dtype)
        second = second * hyper["beta2"] + gradient * gradient * hyper["beta2_rest"]
        denominator = second.sqrt() / second_scales[index] + hyper["eps"]
        parameter = parameter - first / denominator * step_sizes[index]
        new_state = {
            "exp_avg": first.to(state["exp_avg"].dtype),
            "exp_avg_sq": second.to(state["exp_avg_sq"].dtype),
            "step": step,
        }
        updated.append((parameter.to(stored.dtype), new_state))
    return updated


def _orient(gradient: torch.Tensor, dtype: torch.dtype, flags: frozenset[str]) -> torch.Tensor:
    return -gradient.to(dtype) if "maximize" in flags else gradient.to(dtype)


def _choose_working_dtype(parameter: torch.Tensor) -> torch.dtype:
    return torch.float64 if parameter.dtype is torch.float64 else torch.float32
