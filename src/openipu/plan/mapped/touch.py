"""Which variables a leaf reads and writes, and how much of them.

In: views and edges. Out: numbers of variables. A variable that is written as a whole before anything reads it needs no
memory before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from openipu.graph.mapped.codelets import Access
from openipu.graph.mapped.program import Edges, MappedProgram
from openipu.graph.mapped.views import Ints, View


@dataclass(slots=True, eq=False)
class Touched:
    """Variables by number; for those that are written, how many elements at least."""

    reads: set[int] = field(default_factory=set)
    writes: dict[int, int] = field(default_factory=dict)

    def merge(self, other: Touched) -> None:
        self.reads |= other.reads
        for number, elements in other.writes.items():
            self.writes[number] = self.writes.get(number, 0) + elements


class VariableIndex:
    """Finds the variable of an address."""

    def __init__(self, program: MappedProgram) -> None:
        self._starts: dict[int, Ints] = {}
        self._numbers: dict[int, Ints] = {}
        for size in program.spaces:
            held = [
                (v.start, number) for number, v in enumerate(program.variables) if v.type.bytes == size and v.elements
            ]
            self._starts[size] = np.array([start for start, _ in held], dtype=np.int64)
            self._numbers[size] = np.array([number for _, number in held], dtype=np.int64)

    def count(self, size: int, addresses: Ints, each: int = 1) -> dict[int, int]:
        """Variables, and how many of the addresses lie in each, `each` elements an address."""
        if not len(addresses):
            return {}
        if len(addresses) == 1 or (addresses[0] == addresses[-1] == addresses.min() == addresses.max()):
            place = int(np.searchsorted(self._starts[size], addresses[0], side="right")) - 1
            return {int(self._numbers[size][place]): len(addresses) * each}
        places = np.searchsorted(self._starts[size], addresses, side="right") - 1
        counts = np.bincount(places)
        return {int(self._numbers[size][place]): int(counts[place]) * each for place in np.flatnonzero(counts).tolist()}


@lru_cache(maxsize=4)
def _index(program: MappedProgram) -> VariableIndex:
    return VariableIndex(program)


def _count_view(program: MappedProgram, view: View) -> dict[int, int]:
    if not view.elements:
        return {}
    index = _index(program)
    if view.addresses is None:  # a strided view lies in one variable
        place = index.count(view.type.bytes, np.array([view.offset], dtype=np.int64))
        return dict.fromkeys(place, view.elements)
    return index.count(view.type.bytes, view.addresses.reshape(-1))


def touch_views(program: MappedProgram, reads: Sequence[View], writes: Sequence[View]) -> Touched:
    found = Touched()
    for view in reads:
        found.reads |= set(_count_view(program, view))
    for view in writes:
        found.merge(Touched(set(), _count_view(program, view)))
    return found


def touch_edges(program: MappedProgram, touched: Touched, edges: Edges, access: Access) -> None:
    """Add what one field of a batch touches."""
    if not edges.length:
        return
    if edges.starts is not None:
        counts = _index(program).count(edges.type.bytes, edges.starts, edges.length)
    else:
        counts = _index(program).count(edges.type.bytes, edges.list_addresses().reshape(-1))
    if access.reads:
        touched.reads |= set(counts)
    if access.writes:
        touched.merge(Touched(set(), counts))
