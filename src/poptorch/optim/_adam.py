"""`poptorch.optim.Adam` and `poptorch.optim.AdamW`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch

from poptorch.optim._base import ACCUMULATION, CLIPPING, Optimizer, list_given, refuse_amsgrad


class Adam(Optimizer, torch.optim.Adam):
    """torch.optim.Adam with PopTorch's arguments."""

    extra_arguments: ClassVar[Mapping[str, Any]] = {"loss_scaling": 1.0, **ACCUMULATION, **CLIPPING}

    def __init__(
        self,
        params: Any,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = list_given(locals())
        refuse_amsgrad(amsgrad)
        self._start(torch.optim.Adam, given)


class AdamW(Optimizer, torch.optim.AdamW):
    """torch.optim.AdamW with PopTorch's arguments."""

    bias_correction: bool

    extra_arguments: ClassVar[Mapping[str, Any]] = {
        "loss_scaling": 1.0,
        "bias_correction": True,
        **ACCUMULATION,
        **CLIPPING,
    }

    def __init__(
        self,
        params: Any,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = list_given(locals())
        refuse_amsgrad(amsgrad)
        self._start(torch.optim.AdamW, given)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update on the CPU; torch's own, unless the correction of the moments is left out."""
        if self.bias_correction:
            return super().step(closure)  # type: ignore[no-any-return]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        _update_uncorrected(parameter, parameter.grad, self.state[parameter], group)
        return loss


def _update_uncorrected(
    parameter: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], group: dict[str, Any]
) -> None:
    if not state:
        state.update(exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
    if group["maximize"]:
        gradient = -gradient
    beta1, beta2 = group["betas"]
    state["exp_avg"].lerp_(gradient, 1 - beta1)
    state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    parameter.mul_(1 - group["lr"] * group["weight_decay"])
    parameter.addcdiv_(state["exp_avg"], state["exp_avg_sq"].sqrt() + group["eps"], value=-group["lr"])
