"""Adam and its kin: updaters, and the step that takes one."""

from __future__ import annotations

from typing import Any

import torch

from popxl.ops.var_updates.values import update
from popxl.tensor import Tensor

Value = float | Tensor | None


def _wants_decay(weight_decay: Value) -> bool:
    return isinstance(weight_decay, Tensor) or (weight_decay is not None and weight_decay != 0.0)


def _correct(beta: Any, step: Any) -> Any:
    return 1.0 - torch.pow(torch.as_tensor(beta, dtype=torch.float32), step.to(torch.float32))


def _make_updater(
    kind: str,
    first: Tensor,
    second: Tensor,
    weight: Tensor | None,
    time_step: Tensor | None,
    weight_decay: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    *,
    roots: bool = True,
) -> Tensor:
    """m / (√v + ε) + decay · weight, with bias corrections if there is a step, which is counted up in place."""
    decays = _wants_decay(weight_decay)
    if decays and weight is None:
        raise ValueError("Weight decay requires weight: it is a share of that.")
    tensors = {"acc_first_order": first, "acc_second_order": second}
    if decays and weight is not None:
        tensors["weight"] = weight
    if time_step is not None:
        tensors["time_step"] = time_step
    factors = {
        "weight_decay": weight_decay if decays else None,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": 0.0 if epsilon is None else epsilon,
    }

    def run(m: Any, v: Any, *others: Any, weight_decay: Any, beta1: Any, beta2: Any, epsilon: Any) -> Any:
        rest = list(others)
        variable = rest.pop(0) if decays else None
        mean, spread = m, v
        if time_step is not None:
            step = rest.pop(0)
            step.add_(1)
            mean = m / _correct(beta1, step).to(m.dtype)
            spread = v / _correct(beta2, step).to(v.dtype) if roots else v
        spread = torch.sqrt(spread) if roots else spread
        made = mean.to(v.dtype) / (spread + (epsilon.to(v.dtype) if hasattr(epsilon, "to") else epsilon))
        form = m.dtype if variable is None else variable.dtype
        if variable is not None:
            decay = weight_decay.to(form) if hasattr(weight_decay, "to") else weight_decay
            made = made.to(form) + variable * decay
        return made.to(form)

    counted = () if time_step is None else (list(tensors).index("time_step"),)
    return update(kind, run, tensors, factors, in_place=False, writes=counted)


def _check_betas(time_step: Tensor | None, beta1: Value, beta2: Value) -> None:
    if time_step is not None and (beta1 is None or beta2 is None):
        raise ValueError("Bias correction needs both beta1 and beta2, whose powers it divides by.")


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Value = None,
    beta1: Value = None,
    beta2: Value = None,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """Adam's updater; with a time step, which is counted up, its moments are corrected for their start at 0."""
    _check_betas(time_step, beta1, beta2)
    return _make_updater(
        "AdamUpdater", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon
    )


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Value = None,
    beta1: Value = None,
    beta2: Value = None,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """Lamb's updater: Adam's; `adam_var_update` weighs it by two norms."""
    _check_betas(time_step, beta1, beta2)
    return _make_updater(
        "LambUpdater", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon
    )


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Tensor | None = None,
    time_step: Tensor | None = None,
    weight_decay: Value = None,
    beta1: float | Tensor = 0.9,
    epsilon: float | Tensor = 1e-07,
) -> Tensor:
    """AdaMax's updater."""
    if time_step is None:
        raise ValueError("AdaMax requires time_step, to correct its first moment by.")
    return _make_updater(
        "AdaMaxUpdater",
        acc_first_order,
        acc_second_order,
        weight,
        time_step,
        weight_decay,
        beta1,
        None,
        epsilon,
        roots=False,
    )


def adam_var_update(
    t: Tensor, x: Tensor, r1: Tensor, r2: Tensor, learning_rate: Value = None, max_weight_norm: Value = None
) -> Tensor:
    """t - learning_rate · (√r1 / √r2) · x, in place; a square of 0 counts as a ratio of 1."""
    factors = {"rate": 0.0 if learning_rate is None else learning_rate, "limit": max_weight_norm}

    def run(variable: Any, updater: Any, first: Any, second: Any, rate: Any, limit: Any) -> Any:
        norm = torch.sqrt(first)
        if limit is not None:
            norm = torch.minimum(norm, torch.as_tensor(limit, dtype=norm.dtype))
        ratio = norm / torch.sqrt(second)
        one = torch.ones((), dtype=ratio.dtype)
        ratio = torch.where(torch.logical_or(first == 0, second == 0), one, ratio)
        return variable - updater.to(variable.dtype) * (ratio * rate).to(variable.dtype)

    return update("AdamVarUpdate", run, {"t": t, "x": x, "r1": r1, "r2": r2}, factors)
