"""Who writes what in a compute set, and who reads it: vertices of one compute set run at the same time.

In: the batches of a compute set. Out: the first pair of vertices that write one element, the first that reads what
another writes, and for each field whether it touches anything that the compute set writes. Rows of neighbouring
elements are compared as intervals, so long rows cost no more than short ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped.codelets import Codelet
from openipu.graph.mapped.program import Edges, MappedComputeSet
from openipu.graph.mapped.views import Ints


@dataclass(frozen=True, slots=True)
class Clash:
    """Two vertices of a compute set, by number, and an element that both touch."""

    first: int
    second: int
    size: int  # of the element
    address: int


@dataclass(frozen=True, slots=True, eq=False)
class Conflicts:
    """What one compute set does to itself."""

    write_write: Clash | None = None
    read_write: Clash | None = None
    # (batch, field, place in a list of vectors): read, and written by some vertex of the compute set, if only its own
    overlapping: frozenset[tuple[int, str, int]] = frozenset()


@dataclass(slots=True, eq=False)
class _Spans:
    """Intervals of one address space, each with the vertex that it belongs to."""

    starts: list[Ints] = field(default_factory=list)
    ends: list[Ints] = field(default_factory=list)
    owners: list[Ints] = field(default_factory=list)

    def add(self, starts: Ints, ends: Ints, owners: Ints) -> None:
        self.starts.append(starts)
        self.ends.append(ends)
        self.owners.append(owners)

    def sort(self) -> tuple[Ints, Ints, Ints]:
        starts, ends, owners = (np.concatenate(part) for part in (self.starts, self.ends, self.owners))
        order = np.argsort(starts, kind="stable")
        return starts[order], ends[order], owners[order]


def find_conflicts(compute_set: MappedComputeSet, codelets: tuple[Codelet, ...]) -> Conflicts:
    """Compare all vertices of a compute set with each other."""
    writes: dict[int, _Spans] = {}
    reads: list[tuple[tuple[int, str, int], int, tuple[Ints, Ints, Ints]]] = []
    for number, batch in enumerate(compute_set.batches):
        for entry in codelets[batch.codelet].fields:
            for place, edges in enumerate(batch.edges.get(entry.name, ())):
                spans = _list_spans(edges, batch.numbers)
                if entry.access.writes:
                    writes.setdefault(edges.type.bytes, _Spans()).add(*spans)
                if entry.access.reads:
                    reads.append(((number, entry.name, place), edges.type.bytes, spans))
    ordered = {size: spans.sort() for size, spans in writes.items()}
    write_write = next(
        (clash for size, spans in ordered.items() if (clash := _find_double_write(size, *spans)) is not None), None
    )
    read_write: Clash | None = None
    overlapping: set[tuple[int, str, int]] = set()
    for key, size, spans in reads:
        if size not in ordered:
            continue
        touched, clash = _compare(size, spans, ordered[size])
        if touched:
            overlapping.add(key)
        read_write = read_write or clash
    return Conflicts(write_write, read_write, frozenset(overlapping))


def _list_spans(edges: Edges, owners: Ints) -> tuple[Ints, Ints, Ints]:
    if edges.length == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, nothing
    if edges.starts is not None and (edges.stride == 1 or edges.length == 1):
        return edges.starts, edges.starts + edges.length, owners
    addresses = edges.list_addresses()
    flat = addresses.reshape(-1)
    return flat, flat + 1, np.repeat(owners, addresses.shape[1])


def _find_double_write(size: int, starts: Ints, ends: Ints, owners: Ints) -> Clash | None:
    if len(starts) < 2:
        return None
    reach = np.maximum.accumulate(ends)
    found = np.flatnonzero(starts[1:] < reach[:-1])
    for place in found.tolist():
        before = place
        while before >= 0 and reach[before] > starts[place + 1]:
            if ends[before] > starts[place + 1] and owners[before] != owners[place + 1]:
                first, second = sorted((int(owners[before]), int(owners[place + 1])))
                return Clash(first, second, size, int(starts[place + 1]))
            before -= 1
    return None


def _compare(size: int, read: tuple[Ints, Ints, Ints], written: tuple[Ints, Ints, Ints]) -> tuple[bool, Clash | None]:
    """Does anything read lie in what is written, and is there a reader that is not the writer?"""
    starts, ends, owners = read
    written_starts, written_ends, writers = written
    # Ends grow with starts as long as no element is written twice; otherwise the furthest end so far is an upper bound.
    reach: Ints = np.maximum.accumulate(written_ends)
    low = np.searchsorted(reach, starts, side="right")
    high = np.searchsorted(written_starts, ends, side="left")
    hit = np.flatnonzero(high > low)
    if not len(hit):
        return False, None
    low, high, readers = low[hit], high[hit], owners[hit]
    alone = high - low == 1
    foreign: npt.NDArray[np.bool_] = np.zeros(len(hit), dtype=bool)
    foreign[alone] = writers[low[alone]] != readers[alone]
    for place in np.flatnonzero(~alone).tolist():
        foreign[place] = bool((writers[low[place] : high[place]] != readers[place]).any())
    if not foreign.any():
        return True, None
    place = int(np.flatnonzero(foreign)[0])
    window = slice(int(low[place]), int(high[place]))
    other = int(np.flatnonzero(writers[window] != readers[place])[0]) + window.start
    address = max(int(starts[hit[place]]), int(written_starts[other]))
    return True, Clash(int(readers[place]), int(writers[other]), size, address)
