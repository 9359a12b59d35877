"""Clusters of one large graph as mini-batches of one size, for models on IPUs.

In: `torch_geometric.loader.ClusterData` and PopTorch's options. Out: all mini-batches of one call, joined along
dimension 0.
"""

from __future__ import annotations

from typing import Any

from torch_geometric.loader import ClusterData

import poptorch
from poptorch_geometric.collate import CombinedBatchingCollater
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_cluster_loader import FixedSizeClusterLoader as PyGFixedSizeClusterLoader
from poptorch_geometric.pyg_dataloader import OverSizeStrategy


class FixedSizeClusterLoader(PyGFixedSizeClusterLoader, poptorch.DataLoader):
    """See `pyg_cluster_loader.FixedSizeClusterLoader` for its arguments."""

    def __init__(
        self,
        cluster_data: ClusterData,
        fixed_size_options: FixedSizeOptions,
        batch_size: int = 1,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.TrimNodesAndEdges,
        add_pad_masks: bool = True,
        options: poptorch.Options | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            cluster_data,
            fixed_size_options,
            batch_size,
            over_size_strategy,
            add_pad_masks,
            options=poptorch.Options() if options is None else options,
            **kwargs,
        )

    def _wrap(self, collater: Any, mini_batch_size: int) -> Any:
        return CombinedBatchingCollater(collater, mini_batch_size)
