"""The names that optimizer state and values have in a checkpoint, and what they mean.

In: state of an executable by openipu's keys (`exp_avg:layer.weight`), or an optimizer's values. Out: the names that
PopTorch checkpoints have (`Accl1___layer.weight`, `learningRate___specific___layer.weight`), and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from openipu.graph import OptimizerGroup, OptimizerKind, OptimizerSpec
from poptorch._logging import warn_once
from poptorch._optimizer.values import OptimizerValues, Value

IpuState = dict[str, torch.Tensor]
LOSS_SCALING = "lossScaling_FLOAT"
_PREFIXES = {"momentum_buffer": "Accl1", "exp_avg": "Accl1", "exp_avg_sq": "Accl2", "step": "Step"}
_RMSPROP_PREFIXES = {"square_avg": "Accl1", "grad_avg": "Accl2", "momentum_buffer": "Accl3"}
_PLAIN = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "eps": "eps",
    "momentum": "momentum",
    "alpha": "alpha",
    "max_weight_norm": "maxWeightNorm",
}


def name_state(key: str, kind: OptimizerKind) -> str:
    """The name in a checkpoint of a state key."""
    slot, _, parameter = key.partition(":")
    prefixes = _RMSPROP_PREFIXES if kind is OptimizerKind.RMSPROP else _PREFIXES
    return f"{prefixes[slot]}___{parameter}"


def name_values(values: OptimizerValues, spec: OptimizerSpec) -> IpuState:
    """The values that may change, for each parameter, as a checkpoint has them."""
    named: IpuState = {}
    for group, settings in zip(spec.groups, [*values.groups, values.defaults], strict=False):
        if values.kind is OptimizerKind.SGD:
            found = _combine_sgd(values, group, settings)
        else:
            found = _list_plain(settings)
        for parameter in group.parameters:
            named |= {f"{name}___specific___{parameter}": torch.tensor(float(value)) for name, value in found.items()}
    if spec.loss_scaling:
        named[LOSS_SCALING] = torch.tensor(values.loss_scaling.value)
    return named


def apply_named(values: OptimizerValues, spec: OptimizerSpec, named: Mapping[str, torch.Tensor]) -> OptimizerValues:
    """The values with those of a checkpoint in their place. A group has one value: that of its first parameter."""
    if LOSS_SCALING in named:
        values = replace(values, loss_scaling=replace(values.loss_scaling, value=float(named[LOSS_SCALING])))
    entries = [*values.groups, values.defaults]
    for index, group in enumerate(spec.groups):
        if not group.parameters:
            continue
        marker = f"___specific___{group.parameters[0]}"
        found = {name.removesuffix(marker): float(value) for name, value in named.items() if name.endswith(marker)}
        _warn_of_differences(group, named, found)
        sgd = values.kind is OptimizerKind.SGD
        new = _separate_sgd(values, group, entries[index], found) if sgd else _read_plain(entries[index], found)
        entries[index] = {
            name: replace(entry, value=new.get(name, entry.value)) for name, entry in entries[index].items()
        }
    return replace(values, groups=tuple(entries[:-1]), defaults=entries[-1])


def _list_plain(settings: Mapping[str, Value]) -> dict[str, float]:
    found = {_PLAIN[name]: entry.value for name, entry in settings.items() if name in _PLAIN and not entry.constant}
    betas = settings.get("betas")
    if betas is not None and not betas.constant:
        found |= {"beta1": betas.value[0], "beta2": betas.value[1]}
    return found


def _read_plain(settings: Mapping[str, Value], found: Mapping[str, float]) -> dict[str, Any]:
    new: dict[str, Any] = {name: found[old] for name, old in _PLAIN.items() if old in found}
    if "betas" in settings:
        beta1, beta2 = settings["betas"].value
        new["betas"] = (found.get("beta1", beta1), found.get("beta2", beta2))
    return new


def _combine_sgd(values: OptimizerValues, group: OptimizerGroup, settings: Mapping[str, Value]) -> dict[str, float]:
    """SGD's update is written in a few products of its values; a checkpoint has those."""
    lr, decay, scale = settings["lr"].value, settings["weight_decay"].value, values.loss_scaling.value
    if "momentum" not in group.flags:
        # Both hold the learning rate, which may always change; without weight decay the second one stays 1.
        return {"scaledLearningRate0": lr / scale, "weightDecayScaleFactor0": 1 - lr * decay}
    number = values.variant[-1]
    dampened, velocity = 1 - settings["dampening"].value, settings["velocity_scaling"].value
    found = {f"scaledLearningRate{number}": lr / velocity}
    if "weight_decay" in group.flags:
        found["scaledWeightDecay1"] = dampened * decay * velocity
    if not settings["momentum"].constant:
        found[f"scaledMomentum{number}"] = settings["momentum"].value
    if not settings["dampening"].constant or not settings["velocity_scaling"].constant:
        found[f"dampeningScaleFactor{number}"] = dampened * velocity / scale
    return found


def _separate_sgd(
    values: OptimizerValues, group: OptimizerGroup, settings: Mapping[str, Value], found: Mapping[str, float]
) -> dict[str, float]:
    new: dict[str, float] = {}
    scale, lr = values.loss_scaling.value, settings["lr"].value
    if "momentum" not in group.flags:
        lr = new["lr"] = found["scaledLearningRate0"] * scale if "scaledLearningRate0" in found else lr
        if "weightDecayScaleFactor0" in found and lr:
            new["weight_decay"] = (1 - found["weightDecayScaleFactor0"]) / lr
        return new
    number = values.variant[-1]
    velocity = settings["velocity_scaling"].value if number == "1" else scale
    new["velocity_scaling"] = velocity
    if f"scaledLearningRate{number}" in found:
        new["lr"] = found[f"scaledLearningRate{number}"] * velocity
    if f"scaledMomentum{number}" in found:
        new["momentum"] = found[f"scaledMomentum{number}"]
    dampened = 1 - settings["dampening"].value
    if f"dampeningScaleFactor{number}" in found and velocity:
        dampened = found[f"dampeningScaleFactor{number}"] * scale / velocity
        new["dampening"] = 1 - dampened
    if "scaledWeightDecay1" in found and dampened * velocity:
        new["weight_decay"] = found["scaledWeightDecay1"] / (dampened * velocity)
    return new


def _warn_of_differences(group: OptimizerGroup, named: Mapping[str, torch.Tensor], first: Mapping[str, float]) -> None:
    for name, value in first.items():
        others = [named.get(f"{name}___specific___{parameter}") for parameter in group.parameters]
        if any(other is not None and float(other) != value for other in others):
            warn_once(
                f"The checkpoint has different values of {name} for the parameters of one group: that of "
                f"{group.parameters[0]} is used for all of them. Give each parameter its own group to keep them apart."
            )
