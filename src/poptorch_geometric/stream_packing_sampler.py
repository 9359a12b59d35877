"""Mini-batches of as many graphs as fit, one after the other.

In: graphs in the order of a sampler, and the most nodes, edges and graphs of a mini-batch. Out: lists of indices. A
graph that does not fit any more begins the next mini-batch, so nothing has to be sorted or looked at in advance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.utils.data.sampler import Sampler, SequentialSampler
from torch_geometric.data import Dataset, HeteroData
from torch_geometric.data.data import BaseData

__all__ = ["StreamPackingSampler"]

Limit = int | Mapping[Any, int] | None  # for all together, for each type, or none
Count = dict[Any, int]  # by type; None is the key of all together


class TooLarge(Enum):
    """What becomes of a graph that is larger than a whole mini-batch."""

    RAISE = "raise"
    SKIP = "skip"
    ALONE = "alone"  # it is a mini-batch of its own, which is to be trimmed


@dataclass(frozen=True, slots=True)
class Size:
    """Nodes and edges of a graph, by type and all together."""

    nodes: Count
    edges: Count


class StreamPackingSampler(Sampler[list[int]]):
    """Fills mini-batches in the order of `base_sampler`, which is that of the dataset unless one is given.

    Without `max_num_nodes` or `max_num_edges` there is room for `max_num_graphs` times the largest graph. Either may be
    a dictionary by type. With `allow_skip_data`, a graph that alone is too large is left out; otherwise it is a
    RuntimeError.
    """

    def __init__(
        self,
        data_source: Dataset,
        max_num_graphs: int,
        max_num_nodes: Limit = None,
        max_num_edges: Limit = None,
        base_sampler: Sampler[int] | Iterable[int] | None = None,
        allow_skip_data: bool = False,
    ) -> None:
        if max_num_graphs < 1:
            raise ValueError(f"max_num_graphs is {max_num_graphs}: a mini-batch needs room for a graph.")
        self.base_sampler = SequentialSampler(data_source) if base_sampler is None else base_sampler
        if not isinstance(self.base_sampler, Iterable):
            raise ValueError(f"base_sampler must yield indices, but a {type(base_sampler).__name__} yields nothing.")
        self.data_source = data_source
        self.max_num_graphs = max_num_graphs
        self.too_large = TooLarge.SKIP if allow_skip_data else TooLarge.RAISE
        self._sizes: dict[int, Size] = {}
        self._length: int | None = None
        self.max_num_nodes = self._find_limit("nodes") if max_num_nodes is None else max_num_nodes
        self.max_num_edges = self._find_limit("edges") if max_num_edges is None else max_num_edges

    def _find_limit(self, of: str) -> int:
        largest = max((getattr(self._measure(index), of)[None] for index in range(len(self.data_source))), default=0)
        return self.max_num_graphs * int(largest)

    def _measure(self, index: int) -> Size:
        if index not in self._sizes:
            self._sizes[index] = measure(self.data_source[index])
        return self._sizes[index]

    def __iter__(self) -> Iterator[list[int]]:
        return self._pack(self.too_large)

    def _pack(self, too_large: TooLarge) -> Iterator[list[int]]:
        batch: list[int] = []
        held = Size({}, {})
        for index in self.base_sampler:
            size = self._measure(int(index))
            if not self._fits(size):
                if too_large is TooLarge.SKIP:
                    continue
                if too_large is TooLarge.RAISE:
                    raise RuntimeError(self._explain(int(index), size))
            together = Size(_add(held.nodes, size.nodes), _add(held.edges, size.edges))
            if batch and (len(batch) == self.max_num_graphs or not self._fits(together)):
                yield batch
                batch, together = [], size
            batch.append(int(index))
            held = together
        if batch:
            yield batch

    def fill_and_skip(self) -> Iterator[list[int]]:
        """Mini-batches of `max_num_graphs` graphs: one that does not fit into what is begun is left out."""
        batch: list[int] = []
        held = Size({}, {})
        for index in self.base_sampler:
            size = self._measure(int(index))
            together = Size(_add(held.nodes, size.nodes), _add(held.edges, size.edges))
            if self._fits(together):
                batch.append(int(index))
                held = together
            if len(batch) == self.max_num_graphs:
                yield batch
                batch, held = [], Size({}, {})
        if batch:
            yield batch

    def _fits(self, size: Size) -> bool:
        return _is_within(size.nodes, self.max_num_nodes) and _is_within(size.edges, self.max_num_edges)

    def _explain(self, index: int, size: Size) -> str:
        return (
            f"Sample {index} has {size.nodes[None]} nodes and {size.edges[None]} edges, which alone is more than a "
            f"mini-batch holds ({self.max_num_nodes} nodes, {self.max_num_edges} edges). Make mini-batches larger, or "
            "leave such samples out: allow_skip_data=True, OverSizeStrategy.Skip of a loader."
        )

    def __len__(self) -> int:
        """Mini-batches of an epoch. Where the base sampler shuffles, another epoch may have some more or fewer."""
        if self._length is None:
            if not isinstance(self.base_sampler, Sized):
                raise TypeError(f"A {type(self.base_sampler).__name__} has no length, so its mini-batches have none.")
            with torch.random.fork_rng(devices=[]):  # counting must not change what the epochs draw
                quiet = TooLarge.ALONE if self.too_large is TooLarge.RAISE else self.too_large  # loading will say it
                self._length = sum(1 for _ in self._pack(quiet))
        return self._length


def measure(data: BaseData) -> Size:
    """Nodes and edges of a graph."""
    nodes: Count = {None: int(data.num_nodes)}
    edges: Count = {None: int(data.num_edges)}
    if isinstance(data, HeteroData):
        nodes |= {kind: int(store.num_nodes) for kind, store in data.node_items()}
        edges |= {kind: int(store.num_edges) for kind, store in data.edge_items()}
    return Size(nodes, edges)


def _add(some: Count, more: Count) -> Count:
    return {kind: some.get(kind, 0) + number for kind, number in more.items()}


def _is_within(count: Count, limit: Limit) -> bool:
    if isinstance(limit, Mapping):
        return all(number <= limit.get(kind, 0) for kind, number in count.items() if kind is not None)
    return limit is None or count.get(None, 0) <= limit
