"""`poptorch.optim`: torch's optimizers with the arguments that IPU users know.

In: parameters and hyper-parameters. Out: a torch optimizer whose extra attributes the executor reads: `max_grad_norm`
and the types of momentum change results; the rest is stored, and why it has no effect stands in `EXTRA_ARGUMENTS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf, isfinite
from typing import Any

import torch

from openipu.graph import OptimizerSpec
from poptorch._logging import logger, warn_once
from poptorch._optimizer_state import StateKeeper
from poptorch.errors import createPoptorchError

EXTRA_ARGUMENTS = {
    "loss_scaling": "none: gradients are computed in the types of the model, and scaling by a power of two cancels; "
    "half gradients may underflow, which is said once",
    "velocity_scaling": "none: only rescales how the combined accumulator is stored",
    "use_combined_accum": "none: only saves memory on an IPU",
    "accum_type": "none: gradients are accumulated in float32; half is said once",
    "velocity_accum_type": "acts: the type of the momentum",
    "first_order_momentum_accum_type": "acts: the type of the first moment",
    "second_order_momentum_accum_type": "acts: the type of the second moment",
    "max_grad_norm": "acts: gradients are clipped to this global norm",
    "bias_correction": "True only, so far",
}
_STATE_OF_ARGUMENT = {
    "velocity_accum_type": "momentum_buffer",
    "first_order_momentum_accum_type": "exp_avg",
    "second_order_momentum_accum_type": "exp_avg_sq",
}
_ACCUMULATION_TYPES = (torch.float32, torch.float16)


class VariableAttributes:
    """Which attributes may change after compilation. All may change here: constants only save memory on an IPU."""

    def __init__(self, variable: Iterable[str], allowed: Iterable[str]) -> None:
        self._variable_attributes = list(variable)
        self._allowed_attributes = list(allowed)

    def isConstant(self, attr: str) -> bool:
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        self._check(attr)
        if attr in self._variable_attributes:
            self._variable_attributes.remove(attr)

    def markAsVariable(self, attr: str) -> None:
        self._check(attr)
        if attr not in self._variable_attributes:
            self._variable_attributes.append(attr)

    def _check(self, attr: str) -> None:
        known = ", ".join(self._allowed_attributes)
        assert attr in self._allowed_attributes, f"Unknown attribute {attr}. Allowed attributes are {known}"


class Optimizer(StateKeeper):
    """What poptorch's optimizers add to torch's: extra attributes and the variable ones."""

    variable_attrs: VariableAttributes
    loss_scaling: float
    max_grad_norm: float
    param_groups: list[dict[str, Any]]
    _extra_names: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles keep the extra arguments, which torch's own state leaves out."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        kept = ("variable_attrs", "_extra_names", *self._extra_names)
        return {**state, **{name: getattr(self, name) for name in kept}}

    def _keep(self, variable: dict[str, Any], extras: dict[str, tuple[Any, Any]]) -> None:
        """Store the extra arguments with their defaults; those that were passed are variable."""
        self._extra_names = tuple(extras)
        for name, (value, default) in extras.items():
            setattr(self, name, default if value is None else value)
            if name.endswith("accum_type"):
                chosen = getattr(self, name)
                assert chosen in _ACCUMULATION_TYPES, "Accumulation types must be either torch.float32 or torch.float16"
        if getattr(self, "accum_type", torch.float32) is torch.float16:
            warn_once("accum_type=torch.float16 has no effect here: gradients are accumulated in float32.")
        if getattr(self, "bias_correction", True) is False:
            raise createPoptorchError("bias_correction=False is not supported yet: leave it at True.")
        passed = [name for name, value in variable.items() if value is not None]
        allowed = [*variable, *(name for name in ("loss_scaling", "velocity_scaling") if name in extras)]
        passed += [name for name in allowed if name in extras and extras[name][0] is not None]
        self.variable_attrs = VariableAttributes(dict.fromkeys(["lr", *passed]), dict.fromkeys(["lr", *allowed]))


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class SGD(Optimizer, torch.optim.SGD):
    """torch.optim.SGD with PopTorch's arguments. `lr` must be given."""

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        variable = {"momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        constant = {"nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable}
        torch.optim.SGD.__init__(self, params, lr=lr, **_without_none(**variable, **constant))
        extras = {
            "loss_scaling": (loss_scaling, 1.0),
            "velocity_scaling": (velocity_scaling, 1.0),
            "use_combined_accum": (use_combined_accum, False),
            "accum_type": (accum_type, torch.float32),
            "velocity_accum_type": (velocity_accum_type, torch.float32),
            "max_grad_norm": (max_grad_norm, inf),
        }
        self._keep(variable, extras)
        if velocity_scaling is not None and not use_combined_accum:
            logger.warning("velocity_scaling value ignored since use_combined_accum is False")


class Adam(Optimizer, torch.optim.Adam):
    """torch.optim.Adam with PopTorch's arguments."""

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
        _refuse_amsgrad(amsgrad)
        variable = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        constant = {
            "foreach": foreach,
            "maximize": maximize,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
        }
        torch.optim.Adam.__init__(self, params, **_without_none(**variable, **constant))
        extras = {
            "loss_scaling": (loss_scaling, 1.0),
            "accum_type": (accum_type, torch.float32),
            "first_order_momentum_accum_type": (first_order_momentum_accum_type, torch.float32),
            "second_order_momentum_accum_type": (second_order_momentum_accum_type, torch.float32),
            "max_grad_norm": (max_grad_norm, inf),
        }
        self._keep(variable, extras)


class AdamW(Optimizer, torch.optim.AdamW):
    """torch.optim.AdamW with PopTorch's arguments."""

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
        _refuse_amsgrad(amsgrad)
        variable = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        constant = {
            "foreach": foreach,
            "maximize": maximize,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
        }
        torch.optim.AdamW.__init__(self, params, **_without_none(**variable, **constant))
        extras = {
            "loss_scaling": (loss_scaling, 1.0),
            "bias_correction": (bias_correction, True),
            "accum_type": (accum_type, torch.float32),
            "first_order_momentum_accum_type": (first_order_momentum_accum_type, torch.float32),
            "second_order_momentum_accum_type": (second_order_momentum_accum_type, torch.float32),
            "max_grad_norm": (max_grad_norm, inf),
        }
        self._keep(variable, extras)


def _refuse_amsgrad(amsgrad: bool | None) -> None:
    if amsgrad:
        raise ValueError("Only non-amsgrad Adam/AdamW optimizers are supported.")


def add_extra_arguments(spec: OptimizerSpec, optimizer: torch.optim.Optimizer) -> OptimizerSpec:
    """The spec of a torch optimizer, with what poptorch's own arguments change of it."""
    types = dict(spec.state_dtypes)
    for argument, state in _STATE_OF_ARGUMENT.items():
        chosen = getattr(optimizer, argument, torch.float32)
        if chosen is not torch.float32:
            types[state] = chosen
    norm = getattr(optimizer, "max_grad_norm", None)
    clip = float(norm) if norm is not None and isfinite(norm) else spec.max_grad_norm
    return replace(spec, state_dtypes=types, max_grad_norm=clip)


def check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Refuse what has no update rule here."""
    supported = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
    names = ", ".join(f"torch.optim.{cls.__name__}" for cls in supported)
    assert isinstance(optimizer, supported), (
        f"Unsupported optimizer type. Types supported {names} and those of poptorch.optim, not {type(optimizer)}"
    )
    for group in optimizer.param_groups:
        _refuse_amsgrad(group.get("amsgrad"))
    own = type(optimizer)
    if own not in (*supported, SGD, Adam, AdamW):
        warn_once(
            f"The optimizer {own.__name__} is a subclass of a supported one. Poptorch does not run Python optimizer "
            "code directly: only the values of the parent class are used."
        )
