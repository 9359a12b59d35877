"""Loaders of graphs for PyTorch Geometric's own use, without an IPU in sight.

In: a dataset of graphs. Out: mini-batches, as they come or padded to one size. `dataloader.py` has the same for models
on IPUs, by inheritance: what the constructors here hand on reaches `poptorch.DataLoader` there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, cast

import torch.utils.data
from torch.utils.data.sampler import RandomSampler, Sampler, SequentialSampler
from torch_geometric.data import Dataset, HeteroData
from torch_geometric.data.data import BaseData

from poptorch_geometric.collate import FixedSizeCollater
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.pyg_collate import Collater
from poptorch_geometric.stream_packing_sampler import StreamPackingSampler, TooLarge


class FixedSizeStrategy(Enum):
    """How mini-batches of one size come about: always as many real graphs, or as many as fit."""

    PadToMax = 0
    StreamPack = 1


class OverSizeStrategy(Enum):
    """What to do where samples do not fit: raise, leave them out, or leave out some of their nodes or edges."""

    Error = 0
    Skip = 1
    TrimNodes = 2
    TrimEdges = 3
    TrimNodesAndEdges = 4

    @property
    def trims_nodes(self) -> bool:
        return self in (OverSizeStrategy.TrimNodes, OverSizeStrategy.TrimNodesAndEdges)

    @property
    def trims_edges(self) -> bool:
        return self in (OverSizeStrategy.TrimEdges, OverSizeStrategy.TrimNodesAndEdges)


class DataLoader(torch.utils.data.DataLoader[Any]):
    """Joins graphs as they are."""

    def __init__(
        self,
        dataset: Dataset | Sequence[BaseData],
        batch_size: int = 1,
        shuffle: bool = False,
        follow_batch: Sequence[str] | None = None,
        exclude_keys: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        check_no_collater(kwargs)
        self.follow_batch, self.exclude_keys = follow_batch, exclude_keys
        collater = self._wrap(Collater(follow_batch=follow_batch, exclude_keys=exclude_keys), batch_size)
        super().__init__(
            dataset=cast(Any, dataset), batch_size=batch_size, shuffle=shuffle, collate_fn=collater, **kwargs
        )

    def _wrap(self, collater: Any, mini_batch_size: int | None) -> Any:
        """What collates all that is loaded at once."""
        return collater


class FixedSizeDataLoader(torch.utils.data.DataLoader[Any]):
    """Joins graphs and pads them to one size.

    batch_size: graphs in a mini-batch, with one that is padding.
    fixed_size_options: found in the dataset unless given.
    add_pad_masks: `graphs_mask`, `nodes_mask` and `edges_mask` of a mini-batch say what is real.
    """

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
        **kwargs: Any,
    ) -> None:
        check_no_collater(kwargs)
        if fixed_size_options is None:
            fixed_size_options = FixedSizeOptions.from_dataset(dataset, batch_size)
        if batch_size != fixed_size_options.num_graphs and kwargs.get("batch_sampler") is None:
            raise ValueError(
                f"batch_size is {batch_size} and num_graphs of the fixed sizes is {fixed_size_options.num_graphs}: "
                "both say how many graphs a mini-batch has, with the one that is padding."
            )
        first = dataset[0]
        if isinstance(first, HeteroData):
            fixed_size_options.to_hetero(first.node_types, first.edge_types)
        self.fixed_size_options = fixed_size_options
        self.fixed_size_strategy = fixed_size_strategy
        self.over_size_strategy = over_size_strategy
        self.add_pad_masks = add_pad_masks
        sampler = self._make_sampler(dataset, bool(shuffle), kwargs)
        collater = make_fixed_size_collater(
            fixed_size_options, over_size_strategy, add_pad_masks, follow_batch, exclude_keys
        )
        if sampler is not None:
            super().__init__(dataset=dataset, batch_sampler=sampler, collate_fn=self._wrap(collater, None), **kwargs)
        else:
            real = batch_size - 1
            super().__init__(
                dataset=dataset, batch_size=real, shuffle=shuffle, collate_fn=self._wrap(collater, real), **kwargs
            )

    def _wrap(self, collater: Any, mini_batch_size: int | None) -> Any:
        """What collates all that is loaded at once."""
        return collater

    def _make_sampler(self, dataset: Dataset, shuffle: bool, kwargs: dict[str, Any]) -> Iterable[list[int]] | None:
        """The sampler of whole mini-batches, where the strategies need one. Takes what is for it out of `kwargs`."""
        given = kwargs.pop("batch_sampler", None)
        packs = self.fixed_size_strategy is FixedSizeStrategy.StreamPack
        skips = self.over_size_strategy is OverSizeStrategy.Skip
        if given is not None:
            if packs or skips:
                raise ValueError(
                    "batch_sampler already says which graphs are a mini-batch: FixedSizeStrategy.StreamPack and "
                    "OverSizeStrategy.Skip cannot."
                )
            return given  # type: ignore[no-any-return]
        if not (packs or skips):
            return None
        base = kwargs.pop("sampler", None)
        if base is None:
            generator = kwargs.get("generator")
            base = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        drop_last = self._take_drop_last(kwargs)
        # A node and an edge less than there is room for: the padding needs one of each.
        limits = {
            "max_num_graphs": self.fixed_size_options.num_graphs - 1,
            "max_num_nodes": _lower(self.fixed_size_options.num_nodes),
            "max_num_edges": _lower(self.fixed_size_options.num_edges),
        }
        sampler = StreamPackingSampler(dataset, **limits, base_sampler=base, allow_skip_data=skips)
        if self.over_size_strategy.trims_nodes or self.over_size_strategy.trims_edges:
            sampler.too_large = TooLarge.ALONE
        return sampler if packs else FullBatches(sampler, drop_last)

    def _take_drop_last(self, kwargs: dict[str, Any]) -> bool:
        """May the last mini-batch be left out? A packed one is as whole as any other, and never is."""
        return bool(kwargs.pop("drop_last", False))


class FullBatches(Sampler[list[int]]):
    """As many graphs in each mini-batch, without those that do not fit into theirs any more."""

    def __init__(self, packing: StreamPackingSampler, drop_last: bool) -> None:
        self._packing, self._drop_last = packing, drop_last
        self._length: int | None = None

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self._packing.fill_and_skip():
            if len(batch) == self._packing.max_num_graphs or not self._drop_last:
                yield batch

    def __len__(self) -> int:
        if self._length is None:
            with torch.random.fork_rng(devices=[]):
                self._length = sum(1 for _ in self)
        return self._length


def make_fixed_size_collater(
    options: FixedSizeOptions,
    strategy: OverSizeStrategy,
    add_pad_masks: bool,
    follow_batch: Sequence[str] | None = None,
    exclude_keys: Sequence[str] | None = None,
) -> FixedSizeCollater:
    """The collater that does what a strategy says."""
    return FixedSizeCollater(
        options,
        add_masks_to_batch=add_pad_masks,
        trim_nodes=strategy.trims_nodes,
        trim_edges=strategy.trims_edges,
        follow_batch=follow_batch,
        exclude_keys=exclude_keys,
    )


def check_no_collater(kwargs: dict[str, Any]) -> None:
    if "collate_fn" in kwargs:
        raise ValueError("collate_fn is what these loaders choose themselves: it joins graphs, and pads them.")


def _lower(limit: Any) -> Any:
    return {kind: number - 1 for kind, number in limit.items()} if isinstance(limit, dict) else limit - 1
