"""PyTorch Geometric's collater under the signature that this package's loaders use."""

from __future__ import annotations

from collections.abc import Sequence

from torch_geometric.loader.dataloader import Collater as PyGCollater


class Collater(PyGCollater):  # type: ignore[misc]
    """Joins graphs to a `Batch`; needs no dataset."""

    def __init__(self, follow_batch: Sequence[str] | None = None, exclude_keys: Sequence[str] | None = None) -> None:
        # Not by the constructor of the base class: releases differ in whether it takes a dataset.
        self.dataset = None
        self.follow_batch = follow_batch
        self.exclude_keys = exclude_keys
