"""Variables that groups of replicas hold values of their own of, and inputs that all replicas share.

In: a model's metadata, as `VariableSettings` and `InputSettings` wrote it, and the replicas. Out: the model as
one replica sees it, its groups for the run, and the values of the host: one for each group, or for each replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from openipu.graph import ReplicaGroups
from openipu.translate import Weight
from openipu.translate.onnx import OnnxModel
from popart._build.settings import GROUP_SIZE, GROUP_TYPE, RETRIEVAL, STREAM_MODE, CommGroup, VariableSettings
from popart._enumerations.tensors import CommGroupType, ReplicatedStreamMode, VariableRetrievalMode
from popart._exceptions import popart_exception


@dataclass(frozen=True, eq=False)
class Grouping:
    """What differs between the replicas of a model, and what does not."""

    model: OnnxModel  # as one replica sees it
    groups: tuple[ReplicaGroups, ...] = ()
    held: Mapping[str, torch.Tensor] = field(default_factory=dict)  # the host's values of grouped variables
    shared: frozenset[str] = frozenset()  # inputs that are the same for all replicas

    def spread(self, parameter: str, value: torch.Tensor, like_host: bool) -> torch.Tensor:
        """The first state of an optimizer: each group has its own. `like_host`: it was made of the host's values."""
        entry = next((one for one in self.groups if one.parameter == parameter), None)
        if entry is None:
            return value
        if like_host:
            return value[[entry.host_index(group) for group in range(entry.groups)]]
        return value.expand(entry.groups, *value.shape).clone()


def group_replicas(model: OnnxModel, replicas: int) -> Grouping:
    """Read which variables have groups. Without replicas there are none."""
    shared = frozenset(
        name
        for name in model.graph.inputs
        if model.metadata.get(f"{STREAM_MODE}/{name}") == str(int(ReplicatedStreamMode.Broadcast))
    )
    weights: dict[str, Weight] = dict(model.graph.weights)
    groups: list[ReplicaGroups] = []
    held: dict[str, torch.Tensor] = {}
    for name, weight in model.graph.weights.items():
        settings = _read_settings(model, name)
        if settings is None:
            continue
        count = settings.getGroupCount(replicas)
        all_replicas = settings.getRetrievalMode() is VariableRetrievalMode.AllReplicas and replicas > 1
        if count == 1 and not all_replicas:
            continue
        shape = settings.shapeOnReplica(list(weight.shape), replicas, name)
        members = settings.groups(replicas)
        group_of = tuple(next(g for g, group in enumerate(members) if one in group) for one in range(replicas))
        value = weight.read()
        value = value if count > 1 else value.unsqueeze(0)
        held[name] = value[list(group_of)] if all_replicas else value
        groups.append(ReplicaGroups(name, group_of, one_per_group=not all_replicas))
        weights[name] = Weight(weight.dtype, tuple(shape), lambda value=value: value[0].clone())  # type: ignore[misc]
    seen = replace(model, graph=replace(model.graph, weights=weights)) if groups else model
    return Grouping(seen, tuple(groups), held, shared)


def _read_settings(model: OnnxModel, name: str) -> VariableSettings | None:
    found = [model.metadata.get(f"{key}/{name}") for key in (GROUP_TYPE, GROUP_SIZE, RETRIEVAL)]
    if any(text is None for text in found):
        return None
    try:
        kind, size, mode = (int(text or "") for text in found)
        settings = VariableSettings(CommGroup(CommGroupType(kind), size), VariableRetrievalMode(mode))
    except ValueError as error:
        raise popart_exception(f"The model's settings of the variable {name!r} are damaged: {error}.") from error
    if settings.getRetrievalMode() is VariableRetrievalMode.AllReduceReplicas:
        raise popart_exception(
            f"The variable {name!r} is to come back summed over replicas, which no program does: choose OnePerGroup or "
            "AllReplicas."
        )
    return settings
