"""Replicas with weights of their own.

In: a program and the parameters that differ between groups of replicas. Out: sets of replicas. The replicas of a set
share all weights; a parameter without groups has the same value in every set, as it has on every replica of a real
system. Gradients are summed over the sets that share a parameter's value, then each set updates its own copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from openipu.errors import InputError
from openipu.graph import OutputKind, Program, ReplicaGroups, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.engine.micro import MicroFunction, build_micro
from openipu.run.kernels import KernelLibrary
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.update.rules import UpdatePlan
from openipu.run.update.updater import Updater


@dataclass(eq=False)
class ReplicaSet:
    """Memory of one set of weights, and the functions that run on it."""

    memory: DeviceMemory
    groups: Mapping[str, int]  # parameter -> the group whose value this set holds
    updater: Updater | None = None
    function: MicroFunction | None = None

    def build_updater(
        self, plan: UpdatePlan | None, program: Program, accumulates: bool, library: KernelLibrary
    ) -> None:
        if plan is not None:
            with torch.no_grad():
                written = frozenset(entry.name for entry in program.micro.outputs_of(OutputKind.PARAMETER))
                self.updater = Updater(plan, self.memory, accumulates, written, library)

    def bind(
        self, draft: Draft, program: Program, options: RunOptions, accumulates: bool, library: KernelLibrary
    ) -> None:
        """Make the function that runs the draft on the memory as it lies now."""
        with torch.no_grad():
            self.function = build_micro(draft, program, self.memory, self.updater, options, accumulates, library)


class ReplicaSets:
    """All sets of replicas of an executable, and which one each replica uses."""

    def __init__(self, program: Program, options: RunOptions) -> None:
        self._groups = {entry.parameter: entry for entry in options.replica_groups}
        for name in self._groups:
            _check_parameter(program, name)
        kinds = [
            tuple(entry.group_of_replica[replica] for entry in self._groups.values())
            for replica in range(options.replicas)
        ]
        distinct = list(dict.fromkeys(kinds))
        self.of_replica = tuple(distinct.index(kind) for kind in kinds)
        self.sets = tuple(
            ReplicaSet(DeviceMemory(program, options.replicas), dict(zip(self._groups, kind, strict=True)))
            for kind in distinct
        )

    def __getitem__(self, replica: int) -> ReplicaSet:
        return self.sets[self.of_replica[replica]]

    @property
    def first(self) -> ReplicaSet:
        return self.sets[0]

    def load_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Give each set its groups' part of the host's weights: to all sets, or to none."""
        parts = {}
        for replica_set in self.sets:
            parts[replica_set] = {name: self._select(name, tensor, replica_set) for name, tensor in parameters.items()}
            replica_set.memory.check_weights(parts[replica_set], buffers)
        for replica_set, own in parts.items():
            replica_set.memory.load_weights(own, buffers)

    def _select(self, name: str, tensor: torch.Tensor, replica_set: ReplicaSet) -> torch.Tensor:
        entry = self._groups.get(name)
        if entry is None:
            return tensor
        _check_host_tensor(entry, tensor)
        return tensor[entry.host_index(replica_set.groups[name])]

    @torch.no_grad()
    def read_weights(self, parameters: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor]) -> None:
        """Copy weights, and the buffers of replica 0, into the host's tensors."""
        shared = {name: self._select(name, tensor, self.first) for name, tensor in parameters.items()}
        self.first.memory.read_weights(shared, buffers)
        for name, entry in self._groups.items():
            if name in parameters:
                values = self._values_of_groups(
                    entry, {replica_set: replica_set.memory.parameters[name] for replica_set in self.sets}
                )
                order = range(entry.groups) if entry.one_per_group else entry.group_of_replica
                parameters[name].copy_(torch.stack([values[group] for group in order]))

    def _values_of_groups(self, entry: ReplicaGroups, tensors: Mapping[ReplicaSet, torch.Tensor]) -> list[torch.Tensor]:
        by_group = {replica_set.groups[entry.parameter]: tensor for replica_set, tensor in tensors.items()}
        return [by_group[group] for group in range(entry.groups)]

    def read_state(self) -> dict[str, torch.Tensor]:
        """Copies of the optimizer state; that of a grouped parameter has the groups in front."""
        found = {}
        for key, tensor in self.first.memory.state.items():
            entry = self._groups.get(key.partition(":")[2])
            if entry is None:
                found[key] = tensor.clone()
            else:
                states = {replica_set: replica_set.memory.state[key] for replica_set in self.sets}
                found[key] = torch.stack(self._values_of_groups(entry, states))
        return found

    def split_state(self, values: Mapping[str, torch.Tensor], replica_set: ReplicaSet) -> dict[str, torch.Tensor]:
        """The part of some optimizer state that one set holds."""
        own = {}
        for key, tensor in values.items():
            parameter = key.partition(":")[2]
            own[key] = (
                tensor[replica_set.groups[parameter]] if parameter in replica_set.groups and tensor.dim() else tensor
            )
        return own

    def list_tensors(self) -> list[torch.Tensor]:
        """Weights, buffers, state and hyper-parameters of all sets, in an order that every instance has."""
        found: list[torch.Tensor] = []
        for replica_set in self.sets:
            for tensors in (
                replica_set.memory.parameters,
                *replica_set.memory.buffers,
                replica_set.memory.state,
                replica_set.memory.hyper,
            ):
                found += [tensors[name] for name in sorted(tensors)]
        return found

    def reduce_gradients(self, accumulators: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Sum accumulated gradients, by set, over the sets that share a parameter's value."""
        if len(self.sets) == 1:
            return
        for name in accumulators[0] if accumulators else ():
            sharing: dict[int, list[torch.Tensor]] = {}
            for replica_set, own in zip(self.sets, accumulators, strict=True):
                sharing.setdefault(replica_set.groups.get(name, 0), []).append(own[name])
            for tensors in sharing.values():
                _share_sum(tensors)


def _share_sum(tensors: Sequence[torch.Tensor]) -> None:
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total += tensor
    for tensor in tensors:
        tensor.copy_(total)


def _check_parameter(program: Program, name: str) -> None:
    known = [entry.name for entry in program.micro.inputs]
    if name not in known:
        raise InputError(f"Replicas are grouped for parameter {name!r}, which {program.name} does not use.")


def _check_host_tensor(entry: ReplicaGroups, tensor: torch.Tensor) -> None:
    if tensor.dim() == 0 or tensor.shape[0] != entry.host_values:
        each = "group" if entry.one_per_group else "replica"
        raise InputError(
            f"Parameter {entry.parameter!r} has shape {tuple(tensor.shape)} on the host, and needs a first dimension "
            f"of {entry.host_values}, one value for each {each} of replicas."
        )
