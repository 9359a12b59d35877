"""What an optimizer says, as plain values: each with whether it may change after compilation.

In: an optimizer of torch or of poptorch. Out: `OptimizerValues`: compared with the last ones to see whether the device
needs them, written to the log, and turned into the structure and the hyper-parameters that openipu knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import torch

from openipu.capture import compute_hyper_parameters, describe_groups, find_kind
from openipu.errors import OptionError
from openipu.graph import OptimizerKind, OptimizerSpec
from poptorch.optim import LAMB, SGD, Adam, AdamW, Optimizer, RMSprop, VariableAttributes
from poptorch.optim._base import refuse_amsgrad

SUPPORTED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, SGD, Adam, AdamW, RMSprop, LAMB)
_OWN_CLASSES: Mapping[OptimizerKind, type[Optimizer]] = {
    OptimizerKind.SGD: SGD,
    OptimizerKind.ADAM: Adam,
    OptimizerKind.ADAMW: AdamW,
    OptimizerKind.RMSPROP: RMSprop,
    OptimizerKind.LAMB: LAMB,
}
CHANGING = {  # settings of a group that are values
    OptimizerKind.SGD: ("lr", "momentum", "dampening", "weight_decay", "nesterov", "velocity_scaling"),
    OptimizerKind.ADAM: ("lr", "betas", "eps", "weight_decay"),
    OptimizerKind.ADAMW: ("lr", "betas", "eps", "weight_decay"),
    OptimizerKind.RMSPROP: ("lr", "momentum", "weight_decay", "alpha", "eps"),
    OptimizerKind.LAMB: ("lr", "betas", "eps", "weight_decay", "max_weight_norm"),
}
STRUCTURAL = ("nesterov", "maximize", "centered", "decoupled_weight_decay")  # never change, whatever is said
_USUAL = {  # optimizers of torch: a value that is not the usual one is taken for variable
    "weight_decay": 0.0,
    "momentum": 0.0,
    "velocity_scaling": 1.0,
    "dampening": 0.0,
    "eps": 1e-8,
}
_ALWAYS_CONSTANT = ("alpha", "nesterov", "betas")
_USUAL_ADAMW_DECAY = 1e-2
_STATE_TYPES = {  # argument -> the state whose type it is
    OptimizerKind.ADAM: {
        "first_order_momentum_accum_type": "exp_avg",
        "second_order_momentum_accum_type": "exp_avg_sq",
    },
    OptimizerKind.RMSPROP: {
        "first_order_momentum_accum_type": "square_avg",
        "second_order_momentum_accum_type": "grad_avg",
    },
    OptimizerKind.SGD: {"velocity_accum_type": "momentum_buffer"},
}
_STATE_TYPES[OptimizerKind.ADAMW] = _STATE_TYPES[OptimizerKind.LAMB] = _STATE_TYPES[OptimizerKind.ADAM]


@dataclass(frozen=True)
class Value:
    """One setting, and whether the compiled program may rely on it."""

    value: Any
    constant: bool


@dataclass(frozen=True)
class OptimizerValues:
    """All that the device needs to know."""

    kind: OptimizerKind
    variant: str  # "SGD2", "ADAMW_NO_BIAS"
    defaults: Mapping[str, Value]
    groups: tuple[Mapping[str, Value], ...]
    structure: tuple[Mapping[str, Any], ...]  # of each group, then of the defaults
    loss_scaling: Value
    extras: Mapping[str, Any]  # global arguments that are types or flags

    @property
    def accumulation_type(self) -> torch.dtype:
        found = self.extras.get("accum_type", torch.float32)
        assert isinstance(found, torch.dtype)
        return found

    def list_settings(self, groups: int) -> list[dict[str, Any]]:
        """The settings of this many groups, as openipu reads them; one more than the optimizer has is its defaults."""
        entries = [*self.groups, self.defaults][:groups]
        shared = {"use_combined_accum": self.extras.get("use_combined_accum", False)}
        shared |= {name: self.extras[name] for name in ("bias_correction", "use_tf_variant") if name in self.extras}
        return [
            {**fixed, **{name: entry.value for name, entry in group.items()}, **shared}
            for group, fixed in zip(entries, self.structure, strict=False)
        ]

    def describe(self, members: Sequence[Sequence[str]], accumulates: bool) -> OptimizerSpec:
        """The structure to compile for. `members` has one entry more than there are groups where the defaults act."""
        entries = [*self.groups, self.defaults][: len(members)]
        variable = {name for group in entries for name, entry in group.items() if not entry.constant}
        groups = describe_groups(self.kind, members, self.list_settings(len(members)), frozenset(variable))
        types = {
            state: self.extras[argument]
            for argument, state in _STATE_TYPES[self.kind].items()
            if self.extras.get(argument, torch.float32) is not torch.float32
        }
        norm = self.extras.get("max_grad_norm", inf)
        return OptimizerSpec(
            self.kind,
            groups,
            state_dtypes=types,
            max_grad_norm=float(norm) if isfinite(norm) else None,
            loss_scaling=self.loss_scaling.value != 1.0 or not self.loss_scaling.constant,
            accumulator_dtype=self.accumulation_type if accumulates else None,
        )

    def compute(self, spec: OptimizerSpec) -> dict[str, float]:
        """Hyper-parameters by the keys of the compiled program."""
        return compute_hyper_parameters(spec, self.list_settings(len(spec.groups)), self.loss_scaling.value)


def read_values(optimizer: torch.optim.Optimizer) -> OptimizerValues:
    """Read an optimizer, or refuse it."""
    kind = _find_kind(optimizer)
    for settings in optimizer.param_groups:
        refuse_amsgrad(settings.get("amsgrad"))
    own = _OWN_CLASSES[kind].extra_arguments
    extras = {name: getattr(optimizer, name, default) for name, default in own.items() if name != "loss_scaling"}
    chosen = getattr(optimizer, "variable_attrs", None)
    scale = float(getattr(optimizer, "loss_scaling", 1.0))
    loss_scaling = Value(scale, scale == 1.0 if chosen is None else chosen.isConstant("loss_scaling"))

    def read(settings: Mapping[str, Any]) -> dict[str, Value]:
        found = {
            name: Value(settings[name], _is_constant(name, settings[name], kind, chosen))
            for name in CHANGING[kind]
            if name in settings
        }
        if kind is OptimizerKind.SGD and not extras.get("use_combined_accum"):
            found["velocity_scaling"] = loss_scaling  # the momentum is kept as large as the gradients are
        return found

    return OptimizerValues(
        kind=kind,
        variant=_name_variant(kind, optimizer, extras),
        defaults=read(optimizer.defaults),
        groups=tuple(read(settings) for settings in optimizer.param_groups),
        structure=tuple(
            {name: settings[name] for name in STRUCTURAL if name in settings}
            for settings in (*optimizer.param_groups, optimizer.defaults)
        ),
        loss_scaling=loss_scaling,
        extras=extras,
    )


def _find_kind(optimizer: torch.optim.Optimizer) -> OptimizerKind:
    if isinstance(optimizer, LAMB):
        return OptimizerKind.LAMB
    try:
        return find_kind(optimizer)
    except OptionError as error:
        names = ", ".join(f"{cls.__module__.split('._')[0]}.{cls.__name__}" for cls in SUPPORTED)
        raise AssertionError(
            f"Unsupported optimizer type. Types supported {names}, not {type(optimizer).__name__}"
        ) from error


def _is_constant(name: str, value: Any, kind: OptimizerKind, chosen: VariableAttributes | None) -> bool:
    if name == "lr":
        return False
    if chosen is not None:
        return chosen.isConstant(name)
    if name == "weight_decay" and kind is OptimizerKind.ADAMW:
        return bool(value == _USUAL_ADAMW_DECAY)
    return name in _ALWAYS_CONSTANT or bool(value == _USUAL.get(name))


def _name_variant(kind: OptimizerKind, optimizer: torch.optim.Optimizer, extras: Mapping[str, Any]) -> str:
    if kind is OptimizerKind.SGD:
        return "SGD1" if extras.get("use_combined_accum") else "SGD2"
    if kind is OptimizerKind.RMSPROP:
        centered = [group["centered"] for group in optimizer.param_groups]
        other = next((index for index, value in enumerate(centered) if value != centered[0]), None)
        assert other is None, (
            "All parameter groups must have the same value for the 'centered' attribute "
            f"(Group 0: {centered[0]} / Group {other}: {not centered[0]})"
        )
        return "RMSPROP_CENTERED" if centered[0] else "RMSPROP"
    return kind.value.upper() + ("" if extras.get("bias_correction", True) else "_NO_BIAS")
