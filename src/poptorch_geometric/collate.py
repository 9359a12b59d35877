"""From graphs of any size to mini-batches of one size.

In: a list of graphs and `FixedSizeOptions`. Out: a `Batch` with exactly so many nodes, edges and graphs: the real ones
first, then graphs that are padding. `CombinedBatchingCollater` puts the mini-batches of one call of a model together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch_geometric.data import Batch, HeteroData
from torch_geometric.data.data import BaseData

from poptorch_geometric._padding import PaddingMaker, divide_padding
from poptorch_geometric._stores import Counts, Levels, check_graphs, count_edges, count_nodes
from poptorch_geometric._trimming import trim_edges, trim_nodes
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_collate import Collater
from poptorch_geometric.types import join_graphs

__all__ = ["CombinedBatchingCollater", "FixedSizeCollater", "make_exclude_keys"]


def make_exclude_keys(include_keys: Sequence[str], data: BaseData) -> tuple[str, ...]:
    """The attributes of a graph that are not among these, for `exclude_keys`."""
    wanted = {include_keys} if isinstance(include_keys, str) else set(include_keys)
    return tuple(key for key in data.keys() if key not in wanted)  # noqa: SIM118


class FixedSizeCollater(Collater):
    """Joins graphs and pads them.

    add_masks_to_batch: `graphs_mask`, `nodes_mask` and `edges_mask` say what is real.
    trim_nodes, trim_edges: where there are too many, some are left out at random. Otherwise that is a RuntimeError.
    """

    def __init__(
        self,
        fixed_size_options: FixedSizeOptions,
        add_masks_to_batch: bool = False,
        trim_nodes: bool = False,
        trim_edges: bool = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(follow_batch=follow_batch, exclude_keys=exclude_keys)
        self.opts = fixed_size_options
        self.add_masks_to_batch = add_masks_to_batch
        self.trim_nodes = trim_nodes
        self.trim_edges = trim_edges
        self._levels = Levels()

    def __call__(self, data_list: list[BaseData]) -> Batch:
        if not isinstance(data_list, list):
            raise TypeError(f"Expected list, got {type(data_list).__name__}.")
        check_graphs(data_list)
        first = data_list[0]
        if isinstance(first, HeteroData) and not self.opts.is_hetero():
            self.opts.to_hetero(first.node_types, first.edge_types)
        node_limits, edge_limits = self._find_limits(first)
        padding_graphs = self.opts.num_graphs - len(data_list)
        if padding_graphs < 0:
            raise RuntimeError(
                f"There are {len(data_list)} graphs for a mini-batch of {self.opts.num_graphs} (num_graphs, padding "
                "included)."
            )
        if self.trim_nodes:  # a node of padding is left over, for edges that are padding
            reserve = 1 if padding_graphs else 0
            data_list = trim_nodes(data_list, {kind: limit - reserve for kind, limit in node_limits.items()})
        if self.trim_edges:
            data_list = trim_edges(data_list, edge_limits)
        nodes, edges = _sum_counts(map(count_nodes, data_list)), _sum_counts(map(count_edges, data_list))
        missing = (
            _subtract("nodes", node_limits, nodes, "TrimNodes"),
            _subtract("edges", edge_limits, edges, "TrimEdges"),
        )
        if not padding_graphs and any(number for counts in missing for number in counts.values()):
            raise RuntimeError(
                f"{len(data_list)} graphs fill num_graphs of the fixed sizes ({self.opts.num_graphs}), but not their "
                "nodes and edges: there is no graph left that could take the padding. Make num_graphs larger by one."
            )
        shares = divide_padding(padding_graphs, *missing)
        maker = PaddingMaker(data_list, self.opts, self._levels) if shares else None
        batch = super().__call__([*data_list, *(maker.make(*share) for share in shares if maker)])
        if self.add_masks_to_batch:
            _add_masks(batch, len(data_list), padding_graphs, nodes, edges, missing)
        return batch

    def _find_limits(self, graph: BaseData) -> tuple[Counts, Counts]:
        found = []
        for name, given, kinds in (
            ("num_nodes", self.opts.num_nodes, count_nodes(graph)),
            ("num_edges", self.opts.num_edges, count_edges(graph)),
        ):
            limits: Counts = given if isinstance(given, dict) else {None: int(given or 0)}
            lacking = [kind for kind in kinds if kind not in limits]
            if lacking:
                raise RuntimeError(f"{name} of the fixed sizes says nothing of {lacking}, only of {list(limits)}.")
            found.append({kind: limits[kind] for kind in kinds})
        return found[0], found[1]


def _sum_counts(counts: Any) -> Counts:
    total: Counts = {}
    for count in counts:
        for kind, number in count.items():
            total[kind] = total.get(kind, 0) + number
    return total


def _subtract(what: str, limits: Counts, counts: Counts, strategy: str) -> Counts:
    """What is missing. Raises RuntimeError where there is too much."""
    for kind, limit in limits.items():
        if counts[kind] > limit:
            name = "" if kind is None else f" of type {kind!r}"
            raise RuntimeError(
                f"The graphs have {counts[kind]} {what}{name}, but the fixed sizes have room for {limit}. Make "
                f"num_{what} larger (FixedSizeOptions.from_dataset finds what is enough), or have some left out: "
                f"OverSizeStrategy.{strategy} or Skip."
            )
    return {kind: limit - counts[kind] for kind, limit in limits.items()}


def _add_masks(
    batch: Any, real: int, padding: int, nodes: Counts, edges: Counts, missing: tuple[Counts, Counts]
) -> None:
    batch.graphs_mask = torch.arange(real + padding) < real
    for name, counts, lacking in (("nodes_mask", nodes, missing[0]), ("edges_mask", edges, missing[1])):
        for kind, number in counts.items():
            store = batch if kind is None else batch[kind]
            store[name] = torch.arange(number + lacking[kind]) < number


class CombinedBatchingCollater:
    """The mini-batches of one call of a model: replicas x accumulation x device iterations, along dimension 0.

    `mini_batch_size` graphs are a mini-batch; without it, all that come are one.
    """

    def __init__(self, collater: Any, mini_batch_size: int | None = None) -> None:
        self.collater = collater
        self.mini_batch_size = mini_batch_size

    def __call__(self, batch: list[Any]) -> Any:
        size = len(batch) if self.mini_batch_size is None else self.mini_batch_size
        assert len(batch) % size == 0, (
            f"Invalid batch size: {len(batch)} samples are not whole mini-batches of {size}. Use drop_last=True."
        )
        parts = [self.collater(batch[start : start + size]) for start in range(0, len(batch), size)]
        return parts[0] if len(parts) == 1 else join_graphs(parts)
