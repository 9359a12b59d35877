"""Reads an optimizer: its structure for the graph, and its changing values for each run.

In: a torch optimizer, or a kind with the settings of its groups. Out: an `OptimizerSpec`, and hyper-parameters by key.
Values never enter the graph, so a new learning rate never recompiles; a value that decides the shape of the graph (no
momentum at all) does, unless it is said to be variable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from openipu.errors import OptionError
from openipu.graph import HyperParameter, OptimizerGroup, OptimizerKind, OptimizerSpec

LOSS_SCALING = HyperParameter("loss_scaling", -1)
SUPPORTED = "torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW and torch.optim.RMSprop"
Settings = Mapping[str, Any]  # one parameter group as torch keeps it: "lr", "betas" …

_KINDS = {  # AdamW first: newer torch derives it from Adam
    torch.optim.AdamW: OptimizerKind.ADAMW,
    torch.optim.Adam: OptimizerKind.ADAM,
    torch.optim.SGD: OptimizerKind.SGD,
    torch.optim.RMSprop: OptimizerKind.RMSPROP,
}
# Adam needs 1 - beta and log(beta) to more digits than float32 arithmetic on beta would leave.
_MOMENTS = ("lr", "eps", "beta1_rest", "beta2", "beta2_rest")
_CORRECTION = ("log_beta1", "log_beta2")
_VALUES = {  # always inputs of the update
    OptimizerKind.SGD: ("lr",),
    OptimizerKind.ADAM: _MOMENTS,
    OptimizerKind.ADAMW: _MOMENTS,
    OptimizerKind.RMSPROP: ("lr", "eps", "alpha", "alpha_rest"),
    OptimizerKind.LAMB: (*_MOMENTS, "max_weight_norm"),
    OptimizerKind.ADAMAX: ("lr", "eps", "beta1_rest", "beta2"),
    OptimizerKind.ADAGRAD: ("lr", "eps"),
    OptimizerKind.ADADELTA: ("lr", "eps", "alpha", "alpha_rest"),
}
_VALUE_FLAGS = {  # inputs only where they are not neutral, or may become so: name -> its neutral value
    "momentum": 0.0,
    "dampening": 0.0,
    "velocity_scaling": 1.0,
    "weight_decay": 0.0,
}
_DECAY = ("weight_decay", "maximize", "decoupled_weight_decay")
_FLAGS = {  # what decides the shape of the graph
    OptimizerKind.SGD: ("momentum", "weight_decay", "maximize", "always_dampened"),
    OptimizerKind.ADAM: (*_DECAY, "scaled_state"),
    OptimizerKind.ADAMW: ("weight_decay", "maximize", "scaled_state"),
    OptimizerKind.RMSPROP: ("momentum", *_DECAY, "centered", "use_tf_variant"),
    OptimizerKind.LAMB: ("weight_decay", "l2_penalty", "scaled_state", "no_trust_ratio"),
    OptimizerKind.ADAMAX: (*_DECAY, "scaled_state"),
    OptimizerKind.ADAGRAD: ("momentum", *_DECAY),
    OptimizerKind.ADADELTA: ("momentum", *_DECAY),
}
_MOMENTUM_FLAGS = (
    "nesterov",
    "dampening",
    "velocity_scaling",
    "use_combined_accum",
    "ahead",
)  # of SGD, where it has momentum


def find_kind(optimizer: torch.optim.Optimizer) -> OptimizerKind:
    """Which of torch's optimizers this is."""
    for cls, kind in _KINDS.items():
        if isinstance(optimizer, cls):
            return kind
    raise OptionError(f"{type(optimizer).__name__} has no IPU update rule here. Supported are {SUPPORTED}.")


def describe_optimizer(
    optimizer: torch.optim.Optimizer, parameter_names: Mapping[int, str], default_parameters: Sequence[str] = ()
) -> OptimizerSpec:
    """The structure of a torch optimizer.

    `parameter_names` maps id(parameter) to its name in the model; parameters of other models are left out, as no
    gradient of this program reaches them. `default_parameters` are in no group: they form a last one with the
    optimizer's defaults.
    """
    kind = find_kind(optimizer)
    members = list_members(optimizer, parameter_names)
    settings: list[Settings] = list(optimizer.param_groups)
    if default_parameters:
        members.append(tuple(default_parameters))
        settings.append(optimizer.defaults)
    return OptimizerSpec(kind, describe_groups(kind, members, settings))


def list_members(optimizer: torch.optim.Optimizer, parameter_names: Mapping[int, str]) -> list[tuple[str, ...]]:
    """The names of each group's parameters."""
    return [
        tuple(parameter_names[id(entry)] for entry in group["params"] if id(entry) in parameter_names)
        for group in optimizer.param_groups
    ]


def describe_groups(
    kind: OptimizerKind,
    members: Sequence[Sequence[str]],
    settings: Sequence[Settings],
    variable: frozenset[str] = frozenset(),
) -> tuple[OptimizerGroup, ...]:
    """Groups of parameters with their flags. Settings named in `variable` are inputs even where they are neutral."""
    return tuple(
        OptimizerGroup(tuple(names), _read_flags(kind, entries, variable))
        for names, entries in zip(members, settings, strict=True)
    )


def list_hyper_parameters(spec: OptimizerSpec) -> tuple[HyperParameter, ...]:
    """The scalars that a program with this optimizer takes as inputs."""
    grouped = tuple(
        HyperParameter(name, index)
        for index, group in enumerate(spec.groups)
        for name in _list_names(spec.kind, group.flags)
    )
    return (*grouped, LOSS_SCALING) if spec.loss_scaling else grouped


def read_hyper_parameters(optimizer: torch.optim.Optimizer, spec: OptimizerSpec) -> dict[str, float]:
    """A torch optimizer's values now, by `HyperParameter.key`."""
    if find_kind(optimizer) is not spec.kind:
        raise OptionError(
            f"The program was compiled for {spec.kind.value} and the optimizer is {type(optimizer).__name__}. "
            "Compile again with this optimizer."
        )
    settings: list[Settings] = list(optimizer.param_groups)
    if len(spec.groups) == len(settings) + 1:
        settings.append(optimizer.defaults)
    return compute_hyper_parameters(spec, settings)


def compute_hyper_parameters(
    spec: OptimizerSpec, settings: Sequence[Settings], loss_scaling: float = 1.0
) -> dict[str, float]:
    """The values of each group's settings, by `HyperParameter.key`."""
    if len(spec.groups) != len(settings):
        raise OptionError(
            f"The program was compiled for {len(spec.groups)} parameter groups and the optimizer has {len(settings)}. "
            "Compile again with this optimizer."
        )
    values: dict[str, float] = {}
    for index, (group, entries) in enumerate(zip(spec.groups, settings, strict=True)):
        compiled_in = frozenset(name for name in group.flags if name in _VALUE_FLAGS)  # these may well be neutral now
        changed = group.flags ^ _read_flags(spec.kind, entries, compiled_in)
        if changed:
            raise OptionError(
                f"Group {index} of the optimizer was compiled {_list_flags(group.flags)} and now has "
                f"{', '.join(sorted(changed))} the other way. This changes the program, not a value: compile again."
            )
        available = _compute_values(spec.kind, entries)
        values.update({f"{name}.{index}": available[name] for name in _list_names(spec.kind, group.flags)})
    if spec.loss_scaling:
        values[LOSS_SCALING.key] = float(loss_scaling)
    return values


def _read_flags(kind: OptimizerKind, settings: Settings, variable: frozenset[str]) -> frozenset[str]:
    if settings.get("amsgrad"):
        raise OptionError(f"amsgrad=True has no IPU update rule here. Supported are {SUPPORTED} without amsgrad.")

    def is_needed(name: str) -> bool:
        if name in _VALUE_FLAGS:
            return name in variable or settings.get(name, _VALUE_FLAGS[name]) != _VALUE_FLAGS[name]
        return bool(settings.get(name))

    names = _FLAGS[kind]
    if kind is OptimizerKind.SGD and is_needed("momentum"):
        names = (*names, *_MOMENTUM_FLAGS)
    elif kind is OptimizerKind.SGD and settings.get("always_dampened"):
        names = (*names, "dampening")
    flags = {name for name in names if is_needed(name)}
    if settings.get("bias_correction") is False:
        flags.add("no_bias_correction")
    if settings.get("state_as_parameter"):  # state has the type of its parameter, not that of the arithmetic
        flags.add("state_as_parameter")
    return frozenset(flags)


def _list_names(kind: OptimizerKind, flags: frozenset[str]) -> tuple[str, ...]:
    names = _VALUES[kind]
    if "no_bias_correction" not in flags:
        if kind is OptimizerKind.ADAMAX:
            names = (*names, "log_beta1")
        elif names[: len(_MOMENTS)] == _MOMENTS:
            names = (*names, *_CORRECTION)
    return (*names, *(name for name in _VALUE_FLAGS if name in flags))


def _compute_values(kind: OptimizerKind, settings: Settings) -> dict[str, float]:
    plain = ("lr", "eps", "alpha", "max_weight_norm")
    values = {name: float(settings[name]) for name in plain if name in settings}
    values |= {name: float(settings.get(name, neutral)) for name, neutral in _VALUE_FLAGS.items()}
    if not values["momentum"] and not settings.get("always_dampened"):
        values["dampening"] = 0.0  # as in torch, which dampens momentum alone
    if "alpha" in values:
        values["alpha_rest"] = 1 - float(settings["alpha"])
    if "betas" in settings:
        beta1, beta2 = (float(beta) for beta in settings["betas"])
        values |= {"beta1_rest": 1 - beta1, "beta2": beta2, "beta2_rest": 1 - beta2}
        values |= {"log_beta1": _log(beta1), "log_beta2": _log(beta2)}
    return values


def _log(beta: float) -> float:
    """The logarithm, with a finite number for 0 so that step x log stays a number: exp of it is 0 all the same."""
    return math.log(beta) if beta > 0 else -1e4


def _list_flags(flags: frozenset[str]) -> str:
    return f"with {', '.join(sorted(flags))}" if flags else "with no flags"
