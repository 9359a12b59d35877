"""Weights that differ between groups of replicas: `executor.weight.replicaGrouping(...)`.

In: how replicas form groups. Out: the groups of one parameter for the run options, and a model whose grouped parameters
look, while it is captured, as each replica has them: without the dimension of the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from openipu.graph import ReplicaGroups
from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch.errors import createPoptorchError


class ReplicaGroupings:
    """The grouped parameters of one executor."""

    def __init__(self, model: Any, replicas: int) -> None:
        self._model = model
        self._replicas = replicas
        self._found: dict[str, ReplicaGroups] = {}

    def add(self, parameter: torch.Tensor, kind: CommGroupType, size: int, mode: VariableRetrievalMode) -> None:
        """Group the replicas for one parameter of the model."""
        if parameter.dim() == 0:
            raise createPoptorchError("Scalars cannot be passed as per-replica weight tensor values")
        name = next(name for name, other in self._model.named_parameters() if _is_same(other, parameter))
        chosen = divide_replicas(CommGroupType(kind), size, self._replicas)
        self._found[name] = ReplicaGroups(name, chosen, mode == VariableRetrievalMode.OnePerGroup)

    def list_all(self) -> tuple[ReplicaGroups, ...]:
        return tuple(self._found.values())

    def offer(self, parameter: torch.nn.Parameter) -> torch.nn.Parameter:
        """The same parameter with the method, for a model that no executor trains."""
        if hasattr(parameter, "replicaGrouping"):
            return parameter
        offered = torch.Tensor._make_subclass(_OfferedParameter, parameter, parameter.requires_grad)
        offered._groupings = self
        return offered


class _OfferedParameter(torch.nn.Parameter):
    """Another name for a parameter's memory, which is left as it is: the user may pickle it."""

    _groupings: ReplicaGroupings

    def replicaGrouping(
        self, comm_group_type: CommGroupType, shards: int, variable_retrieval_mode: VariableRetrievalMode
    ) -> None:
        """Give each group of replicas a value of its own; on the host, the first dimension counts the groups."""
        self._groupings.add(self, comm_group_type, shards, variable_retrieval_mode)


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first is second or (first.data_ptr() == second.data_ptr() and first.shape == second.shape)


def divide_replicas(kind: CommGroupType, size: int, replicas: int) -> tuple[int, ...]:
    """The group of each replica."""
    if kind == CommGroupType.All:
        return (0,) * replicas
    if kind == CommGroupType.NoGrouping:
        return tuple(range(replicas))
    if size < 1 or replicas % size:
        raise createPoptorchError(
            f"The {replicas} replicas cannot be divided into groups of {size}: "
            "choose a group size that divides poptorch.Options().replicationFactor."
        )
    groups = replicas // size
    if kind == CommGroupType.Consecutive:
        return tuple(replica // size for replica in range(replicas))
    return tuple(replica % groups for replica in range(replicas))


@contextmanager
def show_one_group(model: Any, groupings: Sequence[ReplicaGroups]) -> Iterator[None]:
    """Let grouped parameters of a model have the shape that one replica sees."""
    replaced: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    try:
        for grouping in groupings:
            path = grouping.parameter
            owner, _, name = path.rpartition(".")
            parameters = model.get_submodule(owner)._parameters
            tensor = parameters[name]
            if tensor.shape[0] != grouping.host_values:
                raise createPoptorchError(
                    f"Parameter {path} has shape {tuple(tensor.shape)}, and replicaGrouping makes "
                    f"{grouping.host_values} values of it: its first dimension must be {grouping.host_values}."
                )
            replaced.append((parameters, name, tensor))
            plain = tensor.detach().as_subclass(torch.Tensor)
            parameters[name] = torch.nn.Parameter(plain[0], requires_grad=tensor.requires_grad)
        yield
    finally:
        for parameters, name, tensor in replaced:
            parameters[name] = tensor
