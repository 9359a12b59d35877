"""What replicas make of each other's tensors.

In: the tensors of a group. Out: what each of its members gets. `exchange` puts it into the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from openipu.capture import call_in_graph
from openipu.graph import Collective, CollectiveCall
from popart import CommGroupType
from popxl.replica_grouping import ReplicaGrouping

__all__ = ["CollectiveOps", "CommGroup", "CommGroupType", "exchange", "reduce", "to_collective_op"]

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]
Combine = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]  # one tensor of each member -> one for each


def _add(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total = total + tensor
    return total


_REDUCTIONS: dict[str, Callable[[Sequence[torch.Tensor]], torch.Tensor]] = {
    "add": _add,
    "mean": lambda tensors: _add(tensors) / len(tensors),
    "mul": lambda tensors: torch.stack(list(tensors)).prod(0),
    "min": lambda tensors: torch.stack(list(tensors)).amin(0),
    "max": lambda tensors: torch.stack(list(tensors)).amax(0),
    "and": lambda tensors: torch.stack(list(tensors)).all(0),
    "or": lambda tensors: torch.stack(list(tensors)).any(0),
    "square_add": lambda tensors: _add([tensor * tensor for tensor in tensors]),
}


class CommGroup:
    """A group of replicas as PopART describes it: a kind, and a size."""

    def __init__(self, type: Any = CommGroupType.All, replicaGroupSize: int = 0) -> None:  # noqa: N803
        self.type, self.replicaGroupSize = type, replicaGroupSize


def to_collective_op(op: str) -> str:
    """The name of a reduction, if it is one."""
    if op not in _REDUCTIONS:
        raise ValueError(f"{op!r} is no reduction of collectives: choose one of {', '.join(_REDUCTIONS)}.")
    return op


def reduce(op: str, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """All tensors as one."""
    return _REDUCTIONS[op](tensors).to(tensors[0].dtype)


def exchange(
    kind: Collective, tensor: torch.Tensor, shape: Sequence[int], combine: Combine, group: ReplicaGrouping
) -> torch.Tensor:
    """Let the replicas of each group exchange a tensor; only while a program is captured."""
    groups = group.members

    def run(given: Sequence[Sequence[torch.Tensor]]) -> Sequence[Sequence[torch.Tensor]]:
        made: list[Sequence[torch.Tensor]] = [()] * len(given)
        for members in groups:
            for member, value in zip(members, combine([given[place][0] for place in members]), strict=True):
                made[member] = (value.clone(),)
        return made

    result = torch.empty(tuple(shape), dtype=tensor.dtype, device="meta")
    call = CollectiveCall(str(kind), kind, run, group.group_size)
    return call_in_graph(call, [tensor], [result])[0]
