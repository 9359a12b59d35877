"""Clusters of one large graph as mini-batches of one size, without an IPU in sight. See `cluster_loader.py`."""

from __future__ import annotations

from typing import Any

import torch.utils.data
from torch_geometric.loader import ClusterData, ClusterLoader

from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_dataloader import OverSizeStrategy, check_no_collater, make_fixed_size_collater


class FixedSizeClusterLoader(torch.utils.data.DataLoader[Any]):
    """Joins `batch_size` clusters, with the edges between them, to one graph, and pads that.

    What does not fit is trimmed unless `over_size_strategy` says otherwise.
    """

    def __init__(
        self,
        cluster_data: ClusterData,
        fixed_size_options: FixedSizeOptions,
        batch_size: int = 1,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.TrimNodesAndEdges,
        add_pad_masks: bool = True,
        **kwargs: Any,
    ) -> None:
        check_no_collater(kwargs)
        check_one_graph(fixed_size_options, over_size_strategy, "clusters")
        self.cluster_data = cluster_data
        self.fixed_size_options = fixed_size_options
        self._join = ClusterLoader(cluster_data, batch_size=batch_size).collate_fn
        self._pad = make_fixed_size_collater(fixed_size_options, over_size_strategy, add_pad_masks)
        collater = self._wrap(self._collate, batch_size)
        super().__init__(
            dataset=range(len(cluster_data)),  # type: ignore[arg-type]
            batch_size=batch_size,
            collate_fn=collater,
            **kwargs,
        )

    def _wrap(self, collater: Any, mini_batch_size: int) -> Any:
        return collater

    def _collate(self, clusters: list[int]) -> Any:
        return self._pad([self._join(clusters)])


def check_one_graph(options: FixedSizeOptions, strategy: OverSizeStrategy, what: str) -> None:
    """Raises ValueError for sizes and strategies that are for several samples in a mini-batch."""
    if options.num_graphs != 2:
        raise ValueError(
            f"num_graphs of the fixed sizes is {options.num_graphs}: {what} become one graph, and with one that is "
            "padding there are 2."
        )
    if strategy is OverSizeStrategy.Skip:
        raise ValueError(
            f"OverSizeStrategy.Skip is for samples of a dataset. A mini-batch of {what} is one graph, which can be "
            "trimmed (TrimNodes, TrimEdges, TrimNodesAndEdges) or refused (Error)."
        )
