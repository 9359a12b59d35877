"""What replicas make of each other's tensors, as functions over torch.

In: the tensors of all replicas. Out: those of each. Front ends give them to `exchange`, which records an exchange in a
program, or takes part in one that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.graph import Collective, CollectiveCall
from openipu.graph.meeting import Tensors, meet

Tensor = torch.Tensor
Combine = Callable[[Sequence[Tensor]], list[Tensor]]  # one tensor of each member -> one for each


def _stacked(reduce: Callable[[Tensor], Tensor]) -> Callable[[Sequence[Tensor]], Tensor]:
    return lambda tensors: reduce(torch.stack(list(tensors))).to(tensors[0].dtype)


def _add(tensors: Sequence[Tensor]) -> Tensor:
    total = tensors[0].clone()
    for tensor in tensors[1:]:
        total = total + tensor
    return total


REDUCTIONS: dict[str, Callable[[Sequence[Tensor]], Tensor]] = {
    "ADD": _add,
    "MUL": _stacked(lambda values: values.prod(0)),
    "MIN": _stacked(lambda values: values.amin(0)),
    "MAX": _stacked(lambda values: values.amax(0)),
    "LOGICAL_AND": _stacked(lambda values: values.all(0)),
    "LOGICAL_OR": _stacked(lambda values: values.any(0)),
    "MEAN": lambda tensors: _add([tensor / len(tensors) for tensor in tensors]).to(tensors[0].dtype),
}


def reduce_all(op: str) -> Combine:
    """All get the reduction."""

    def combine(tensors: Sequence[Tensor]) -> list[Tensor]:
        total = REDUCTIONS[op](tensors)
        return [total.clone() for _ in tensors]

    return combine


def reduce_to_shares(op: str, share: int) -> Combine:
    """Each gets its share of the reduced flat tensor, filled up with zeros at the end. LOCAL: of its own tensor."""

    def combine(tensors: Sequence[Tensor]) -> list[Tensor]:
        size = share * len(tensors)
        flat = [torch.nn.functional.pad(tensor.reshape(-1), (0, size - tensor.numel())) for tensor in tensors]
        if op != "LOCAL":
            flat = [REDUCTIONS[op](flat)] * len(tensors)
        return [value[place * share : (place + 1) * share].clone() for place, value in enumerate(flat)]

    return combine


def gather(tensors: Sequence[Tensor]) -> list[Tensor]:
    """All get all tensors, on a new first dimension."""
    whole = torch.stack(list(tensors))
    return [whole.clone() for _ in tensors]


def trade(split: int, joined: int) -> Combine:
    """Each gives one share to every other, and joins what it gets."""

    def combine(tensors: Sequence[Tensor]) -> list[Tensor]:
        shares = [tensor.chunk(len(tensors), dim=split) for tensor in tensors]
        return [torch.cat([share[place] for share in shares], dim=joined) for place in range(len(tensors))]

    return combine


def number(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each gets its number."""
    return [torch.tensor(place, dtype=torch.int32) for place in range(len(tensors))]


def exchange(
    kind: Collective, tensor: Tensor, shape: Sequence[int], combine: Combine, key: str, group: int = 0
) -> Tensor:
    """Let replicas exchange a tensor; the result has its type, and a shape of its own. `group`:
    how many replicas that follow each other belong together; 0 for all. `key` tells this exchange from others."""

    def run(given: Sequence[Tensors]) -> list[Tensors]:
        width = group or len(given)
        if len(given) % width:
            raise ValueError(
                f"replica_group_size is {width}, and the program has {len(given)} replicas, which is no multiple."
            )
        made: list[Tensors] = []
        for first in range(0, len(given), width):
            made += [(value,) for value in combine([tensors[0] for tensors in given[first : first + width]])]
        return made

    if not is_capturing():
        return meet(key, run, [tensor])[0]
    result = torch.empty(tuple(shape), dtype=tensor.dtype, device="meta")
    return call_in_graph(CollectiveCall(str(kind), kind, run, group), [tensor], [result])[0]
