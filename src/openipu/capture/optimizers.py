"""Reads a torch optimizer: its structure for the graph, and its changing values for each run.

In: `torch.optim.SGD`, `Adam` or `AdamW`. Out: an `OptimizerSpec`, and hyper-parameters by key. Values never enter the
graph, so a new learning rate never recompiles; a value that decides the shape of the graph (no momentum at all) does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from openipu.errors import OptionError
from openipu.graph import HyperParameter, OptimizerGroup, OptimizerKind, OptimizerSpec

SUPPORTED = "torch.optim.SGD, torch.optim.Adam and torch.optim.AdamW"
# Adam needs 1 - beta and log(beta) to more digits than float32 arithmetic on beta would leave.
_ADAM_VALUES = ("lr", "eps", "beta1_rest", "beta2", "beta2_rest", "log_beta1", "log_beta2")


def describe_optimizer(
    optimizer: torch.optim.Optimizer, parameter_names: Mapping[int, str], default_parameters: Sequence[str] = ()
) -> OptimizerSpec:
    """The structure of an optimizer.

    `parameter_names` maps id(parameter) to its name in the model; parameters of other models are left out, as no
    gradient of this program reaches them. `default_parameters` are in no group: they form a last one with the
    optimizer's defaults.
    """
    kind = _find_kind(optimizer)
    groups: list[OptimizerGroup] = []
    for settings in optimizer.param_groups:
        names = tuple(parameter_names[id(entry)] for entry in settings["params"] if id(entry) in parameter_names)
        groups.append(OptimizerGroup(names, _read_flags(kind, settings)))
    if default_parameters:
        groups.append(OptimizerGroup(tuple(default_parameters), _read_flags(kind, optimizer.defaults)))
    return OptimizerSpec(kind, tuple(groups))


def list_hyper_parameters(spec: OptimizerSpec) -> tuple[HyperParameter, ...]:
    """The scalars that the update of this optimizer takes as inputs."""
    return tuple(
        HyperParameter(name, index)
        for index, group in enumerate(spec.groups)
        for name in _list_names(spec.kind, group.flags)
    )


def read_hyper_parameters(optimizer: torch.optim.Optimizer, spec: OptimizerSpec) -> dict[str, float]:
    """The optimizer's values now, by `HyperParameter.key`."""
    settings = list(optimizer.param_groups)
    if len(spec.groups) == len(settings) + 1:
        settings.append(optimizer.defaults)
    if len(spec.groups) != len(settings):
        raise OptionError(
            f"The program was compiled for {len(spec.groups)} parameter groups and the optimizer has {len(settings)}. "
            "Compile again with this optimizer."
        )
    if _find_kind(optimizer) is not spec.kind:
        raise OptionError(
            f"The program was compiled for {spec.kind.value} and the optimizer is {type(optimizer).__name__}. "
            "Compile again with this optimizer."
        )
    values: dict[str, float] = {}
    for index, (group, entries) in enumerate(zip(spec.groups, settings, strict=True)):
        changed = group.flags ^ _read_flags(spec.kind, entries)
        if changed:
            raise OptionError(
                f"Group {index} of the optimizer was compiled {_list_flags(group.flags)} and now has "
                f"{', '.join(sorted(changed))} the other way. This changes the program, not a value: compile again."
            )
        available = _compute_values(spec.kind, entries)
        values.update({f"{name}.{index}": available[name] for name in _list_names(spec.kind, group.flags)})
    return values


def _find_kind(optimizer: torch.optim.Optimizer) -> OptimizerKind:
    if isinstance(optimizer, torch.optim.AdamW):  # first: newer torch derives it from Adam
        return OptimizerKind.ADAMW
    if isinstance(optimizer, torch.optim.Adam):
        return OptimizerKind.ADAM
    if isinstance(optimizer, torch.optim.SGD):
        return OptimizerKind.SGD
    raise OptionError(f"{type(optimizer).__name__} has no IPU update rule here. Supported are {SUPPORTED}.")


def _read_flags(kind: OptimizerKind, settings: Mapping[str, Any]) -> frozenset[str]:
    """What decides the shape of the graph."""
    if settings.get("amsgrad"):
        raise OptionError(f"amsgrad=True has no IPU update rule here. Supported are {SUPPORTED} without amsgrad.")
    names = ["weight_decay", "maximize"]
    if kind is OptimizerKind.SGD:
        names += ["momentum", "nesterov", "dampening"] if settings.get("momentum") else []
    elif settings.get("decoupled_weight_decay") and kind is OptimizerKind.ADAM:
        names.append("decoupled_weight_decay")
    return frozenset(name for name in names if settings.get(name))


def _list_names(kind: OptimizerKind, flags: frozenset[str]) -> tuple[str, ...]:
    if kind is OptimizerKind.SGD:
        momentum = ("momentum",) if "momentum" in flags else ()
        dampening = ("dampening",) if "dampening" in flags else ()
        names = ("lr", *momentum, *dampening)
    else:
        names = _ADAM_VALUES
    return (*names, "weight_decay") if "weight_decay" in flags else names


def _compute_values(kind: OptimizerKind, settings: Mapping[str, Any]) -> dict[str, float]:
    plain = ("lr", "momentum", "dampening", "weight_decay", "eps")
    values = {name: float(settings[name]) for name in plain if name in settings}
    if kind is not OptimizerKind.SGD:
        beta1, beta2 = (float(beta) for beta in settings["betas"])
        values |= {"beta1_rest": 1 - beta1, "beta2": beta2, "beta2_rest": 1 - beta2}
        values |= {"log_beta1": _log(beta1), "log_beta2": _log(beta2)}
    return values


def _log(beta: float) -> float:
    """The logarithm, with a finite number for 0 so that step x log stays a number: exp of it is 0 all the same."""
    return math.log(beta) if beta > 0 else -1e4


def _list_flags(flags: frozenset[str]) -> str:
    return f"with {', '.join(sorted(flags))}" if flags else "with no flags"
