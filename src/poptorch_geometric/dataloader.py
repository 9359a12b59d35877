"""Loaders of graphs for models on IPUs.

In: a dataset of graphs and PopTorch's options. Out: all mini-batches of one call of a model, joined along dimension 0:
`edge_index` of n mini-batches has 2 n rows, and the model gets two of them at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_geometric.data import Dataset

import poptorch
from poptorch_geometric.collate import CombinedBatchingCollater
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_dataloader import DataLoader as PyGDataLoader
from poptorch_geometric.pyg_dataloader import FixedSizeDataLoader as PyGFixedSizeDataLoader
from poptorch_geometric.pyg_dataloader import FixedSizeStrategy, OverSizeStrategy

__all__ = ["DataLoader", "FixedSizeDataLoader", "FixedSizeStrategy", "OverSizeStrategy"]


class DataLoader(PyGDataLoader, poptorch.DataLoader):
    """Joins graphs as they are: those of a dataset that has one size, or gets it by a transform."""

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 1,
        shuffle: bool = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        options: poptorch.Options | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            follow_batch,
            exclude_keys,
            options=poptorch.Options() if options is None else options,
            **kwargs,
        )

    def _wrap(self, collater: Any, mini_batch_size: int | None) -> Any:
        return CombinedBatchingCollater(collater, mini_batch_size)


class FixedSizeDataLoader(PyGFixedSizeDataLoader, poptorch.DataLoader):
    """Joins graphs and pads them to one size; see `pyg_dataloader.FixedSizeDataLoader` for its arguments."""

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 2,
        shuffle: bool = False,
        fixed_size_options: FixedSizeOptions | None = None,
        fixed_size_strategy: FixedSizeStrategy = FixedSizeStrategy.PadToMax,
        over_size_strategy: OverSizeStrategy = OverSizeStrategy.Error,
        add_pad_masks: bool = True,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        options: poptorch.Options | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            fixed_size_options,
            fixed_size_strategy,
            over_size_strategy,
            add_pad_masks,
            follow_batch,
            exclude_keys,
            options=poptorch.Options() if options is None else options,
            **kwargs,
        )

    def _wrap(self, collater: Any, mini_batch_size: int | None) -> Any:
        return CombinedBatchingCollater(collater, mini_batch_size)

    def _take_drop_last(self, kwargs: dict[str, Any]) -> bool:
        return bool(kwargs.get("drop_last", True))  # stays: whole calls are meant, too
