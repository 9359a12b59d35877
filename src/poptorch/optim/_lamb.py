"""`poptorch.optim.LAMB`: layer-wise adaptive moments (arXiv 1904.00962), which torch has not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch

from poptorch.optim._base import ACCUMULATION, Optimizer, list_given

LARGEST_HALF = 65500.0
_DEFAULTS = {
    "lr": 1e-3,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "weight_decay": 1e-2,
    "max_weight_norm": LARGEST_HALF,
}


class LAMB(Optimizer, torch.optim.Optimizer):
    """Adam's step, scaled for each parameter by the ratio of its norm, at most `max_weight_norm`, to the step's."""

    extra_arguments: ClassVar[Mapping[str, Any]] = {"loss_scaling": 1.0, "bias_correction": True, **ACCUMULATION}
    bias_correction: bool

    def __init__(
        self,
        params: Any,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool | None = None,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
    ) -> None:
        given = list_given(locals())
        defaults = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
        extras = {name: value for name, value in given.items() if name in self.extra_arguments}
        self._start(torch.optim.Optimizer, {"params": params, "defaults": defaults, **extras})
        self.variable_attrs._variable_attributes = list(given)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update on the CPU, by the same formulas as on the device."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(parameter.grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(parameter.grad, parameter.grad, value=1 - beta2)
        first, root = state["exp_avg"], state["exp_avg_sq"].sqrt()
        if self.bias_correction:
            first = first / (1 - beta1 ** state["step"])
            root = root / math.sqrt(1 - beta2 ** state["step"])
        step = first / (root + group["eps"]) + group["weight_decay"] * parameter
        weight_norm = parameter.norm().clamp(max=group["max_weight_norm"])
        step_norm = step.norm()
        trust = float(weight_norm / step_norm) if weight_norm > 0 and step_norm > 0 else 1.0
        parameter.sub_(step, alpha=group["lr"] * trust)
