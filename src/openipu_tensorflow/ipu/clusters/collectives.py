"""Values that cross from replica to replica inside a program.

In: tensors of a traced level. Out: items of that level, whose results are computed from the values of all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.tracing import Level, make_marker
from openipu_tensorflow.ipu.clusters.updates import find_trace

Array = Any
Exchange = Callable[[list[Array]], list[Array]]  # one value of each replica -> one of each


@dataclass(eq=False)
class CollectiveItem:
    """Values of one tensor, exchanged between the replicas."""

    initial: list[Any]
    results: list[Any]
    marker: Any
    exchange: Exchange
    count: Any = None
    levels: list[Level] = field(default_factory=list)


def add_collective(
    tensors: Sequence[Any], shapes: Sequence[Any], kinds: Sequence[Any], exchange: Exchange
) -> list[Any]:
    """Stand-ins for what an exchange gives."""
    from tensorflow.python.ops import array_ops

    trace = find_trace("A collective of replicas")
    results = [array_ops.placeholder(kind, shape, name="collective") for shape, kind in zip(shapes, kinds, strict=True)]
    item = CollectiveItem(list(tensors), results, make_marker("collective/done"), exchange)
    trace.level.items.append(item)
    return results


def reduce_in_groups(size: int | None, reduce: Callable[[Array], Array]) -> Exchange:
    """Groups of replicas that follow each other share one result; None for one group of all."""

    def exchange(values: list[Array]) -> list[Array]:
        width = size or len(values)
        if len(values) % width:
            raise ValueError(
                f"replica_group_size is {width}, and the program has {len(values)} replicas, which is no multiple."
            )
        made: list[Array] = []
        for first in range(0, len(values), width):
            made += [reduce(numpy.stack(values[first : first + width]))] * width
        return made

    return exchange
