"""The order in which nodes can run.

In: nodes, and the names that each of them reads. Out: the same nodes, each behind those that make what it reads; nodes
that are in such an order already stay where they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignNode


def sort_nodes(
    nodes: Sequence[ForeignNode], reads: Sequence[Sequence[str]], known: AbstractSet[str], what: str
) -> list[ForeignNode]:
    """Sort nodes; a name that nobody makes, one that two make, and a cycle are errors."""
    maker: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.outputs:
            if name and (name in maker or name in known):
                raise TranslationError(f"{what}: {node.title} makes {name!r}, which is made twice.")
            if name:
                maker[name] = number
    waits = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for number, names in enumerate(reads):
        for name in dict.fromkeys(names):
            if name in maker:
                readers[maker[name]].append(number)
                waits[number] += 1
            elif name not in known:
                raise TranslationError(
                    f"{what}: {nodes[number].title} reads {name!r}, which is neither an input nor made by any node."
                )
    if all(maker.get(name, -1) < number for number, names in enumerate(reads) for name in names):
        return list(nodes)
    ready = deque(number for number, count in enumerate(waits) if count == 0)
    order: list[ForeignNode] = []
    while ready:
        number = ready.popleft()
        order.append(nodes[number])
        for reader in readers[number]:
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.append(reader)
    if len(order) < len(nodes):
        stuck = next(nodes[number] for number, count in enumerate(waits) if count)
        raise TranslationError(f"{what}: {stuck.title} needs its own result: the nodes form a cycle.")
    return order
