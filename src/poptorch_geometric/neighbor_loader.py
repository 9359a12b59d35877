"""Sampled neighbourhoods of one large graph as mini-batches of one size.

In: a graph, how many neighbours to sample in each hop, `FixedSizeOptions`. Out: mini-batches whose first nodes are
those that sampling began with, then their neighbours, then padding; for models on IPUs, those of one call together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch_geometric.data import HeteroData
from torch_geometric.data.data import BaseData
from torch_geometric.loader import NeighborLoader
from torch_geometric.sampler.base import SubgraphType

import poptorch
from poptorch_geometric.collate import CombinedBatchingCollater
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_cluster_loader import check_one_graph
from poptorch_geometric.pyg_dataloader import OverSizeStrategy, check_no_collater, make_fixed_size_collater

__all__ = ["FixedSizeNeighborLoader", "PyGFixedSizeNeighborLoader"]

AS_SAMPLED = {
    "batch_size",
    "num_sampled_nodes",
    "num_sampled_edges",
}  # said of real nodes and edges alone: not joined with padding


class PyGFixedSizeNeighborLoader(torch.utils.data.DataLoader[Any]):
    """Samples by `torch_geometric.loader.NeighborLoader`, whose arguments these are, and pads.

    filter_per_worker: without effect; features are always taken where sampling happens.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: torch.Tensor | None = None,
        subgraph_type: SubgraphType | str = SubgraphType.directional,
        replace: bool = False,
        directed: bool = True,
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool = True,
        batch_size: int = 1,
        neighbor_sampler: Any = None,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.TrimNodesAndEdges,
        fixed_size_options: FixedSizeOptions | None = None,
        add_pad_masks: bool = True,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        check_no_collater(kwargs)
        sampling = NeighborLoader(
            data,
            num_neighbors,
            input_nodes=input_nodes,
            input_time=input_time,
            replace=replace,
            subgraph_type=subgraph_type,
            directed=directed,
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            is_sorted=is_sorted,
            filter_per_worker=True,
            neighbor_sampler=neighbor_sampler,
            batch_size=batch_size,
        )
        if fixed_size_options is None:
            fixed_size_options = FixedSizeOptions.from_loader(sampling)
        check_one_graph(fixed_size_options, over_size_strategy, "sampled nodes")
        if isinstance(data, HeteroData):
            fixed_size_options.to_hetero(data.node_types, data.edge_types)
        self.data = data
        self.fixed_size_options = fixed_size_options
        self._sampling = sampling
        self._pad = make_fixed_size_collater(
            fixed_size_options, over_size_strategy, add_pad_masks, follow_batch, [*(exclude_keys or ()), *AS_SAMPLED]
        )
        self._as_sampled = AS_SAMPLED.difference(exclude_keys or ())
        collater = self._wrap(self._collate, batch_size)
        super().__init__(dataset=sampling.dataset, batch_size=batch_size, collate_fn=collater, **kwargs)

    def _wrap(self, collater: Any, mini_batch_size: int) -> Any:
        return collater

    def _collate(self, index: list[int]) -> Any:
        return self.fixedSizeCollate(self.nativeCollate(index))

    def nativeCollate(self, index: Any) -> BaseData:
        """The neighbourhood of these nodes, by their place among the input nodes, in the size that it has."""
        sampled: BaseData = self._sampling(torch.as_tensor(index).flatten())
        return sampled

    def fixedSizeCollate(self, data: BaseData | list[BaseData]) -> Any:
        """The same, padded. What it says of sampling, such as `batch_size`, stays as it was."""
        graphs = data if isinstance(data, list) else [data]
        padded = self._pad(graphs)
        for ours, sampled in zip(padded.stores, graphs[0].stores, strict=True):
            for key in self._as_sampled.intersection(sampled.keys()):
                ours[key] = sampled[key]
        return padded


class FixedSizeNeighborLoader(PyGFixedSizeNeighborLoader, poptorch.DataLoader):
    """The same for models on IPUs: takes PopTorch's options, too."""

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        *args: Any,
        options: poptorch.Options | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            data, num_neighbors, *args, options=poptorch.Options() if options is None else options, **kwargs
        )

    def _wrap(self, collater: Any, mini_batch_size: int) -> Any:
        return CombinedBatchingCollater(collater, mini_batch_size)
