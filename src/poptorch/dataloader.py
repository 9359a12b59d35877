"""`poptorch.DataLoader`: torch's loader with the batch that one call of a model consumes.

In: options, a dataset and the micro-batch size. Out: combined batches, ordered as the model splits them:
batch_size x deviceIterations x gradientAccumulation x (replicationFactor / input group size).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, cast

import torch
from torch.utils.data import IterableDataset, Sampler

from poptorch._logging import logger, warn_once
from poptorch.enums import DataLoaderMode
from poptorch.errors import createPoptorchError
from poptorch.options import Options


class DataLoader(torch.utils.data.DataLoader[Any]):
    """Loads what one call of a model consumes. `drop_last` is True unless told otherwise: shapes are static."""

    def __init__(
        self,
        options: Options,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: dict[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        **kwargs: Any,
    ) -> None:
        assert isinstance(options, Options), f"Expected a poptorch.Options first, not {type(options)}"
        options._freeze()
        self._options = options
        micro_batches = count_loaded_micro_batches(options)
        self._combined_batch_size = None if batch_size is None else batch_size * micro_batches
        self._check_mode(mode, rebatched_worker_size, async_options)
        if isinstance(dataset, IterableDataset) and num_workers > 1 and kwargs.get("worker_init_fn") is None:
            logger.warning(
                "An IterableDataset with several workers and no worker_init_fn yields every element once a worker: "
                "pass a worker_init_fn that splits the dataset."
            )
        keywords = dict(kwargs, num_workers=num_workers)
        keywords["persistent_workers"] = num_workers > 0 if persistent_workers is None else persistent_workers
        distributed = options.Distributed.numProcesses > 1 and auto_distributed_partitioning
        if batch_sampler is not None:
            self._check_sampler(batch_size, shuffle, distributed)
            own_batch = getattr(batch_sampler, "batch_size", None)
            self._combined_batch_size = own_batch * micro_batches if isinstance(own_batch, int) else None
            joined = _JoinedBatches(batch_sampler, micro_batches, drop_last)
            super().__init__(dataset, batch_sampler=cast("Sampler[list[int]]", joined), **keywords)
            return
        if distributed and "sampler" not in keywords:
            keywords["sampler"] = _ShareSampler(options, dataset, batch_size, bool(shuffle))
            shuffle = False
        if self._combined_batch_size is not None and not drop_last:
            self._warn_of_remainder(dataset)
        if not isinstance(dataset, IterableDataset):
            keywords["shuffle"] = bool(shuffle)
        super().__init__(
            dataset,
            batch_size=self._combined_batch_size,
            drop_last=drop_last and self._combined_batch_size is not None,
            **keywords,
        )

    @property
    def combinedBatchSize(self) -> int | None:
        """Elements in one batch of this loader; None when the dataset makes its own batches."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        return self._options

    def terminate(self) -> None:
        """Stop background workers, if any. The loader may be iterated again."""
        iterator = getattr(self, "_iterator", None)
        if iterator is not None and hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()
        self._iterator = None

    def _check_mode(
        self, mode: DataLoaderMode, rebatched_worker_size: int | None, async_options: dict[str, Any] | None
    ) -> None:
        if rebatched_worker_size is not None:
            assert mode == DataLoaderMode.AsyncRebatched, "rebatched_worker_size is for DataLoaderMode.AsyncRebatched"
            combined = self._combined_batch_size or 0
            assert rebatched_worker_size <= combined, (
                f"rebatched_worker_size ({rebatched_worker_size}) must be at most the combined batch size ({combined})"
            )
        if async_options is not None:
            assert mode != DataLoaderMode.Sync, "async_options are for the asynchronous modes"
        if mode != DataLoaderMode.Sync:
            warn_once(
                f"DataLoaderMode.{DataLoaderMode(mode).name} is not supported yet: batches are loaded synchronously. "
                "The batches are the same; use num_workers to load in the background."
            )

    @staticmethod
    def _check_sampler(batch_size: int | None, shuffle: bool | None, distributed: bool) -> None:
        if batch_size != 1 or shuffle:
            raise createPoptorchError("`batch_sampler` option is mutually exclusive with batch_size, shuffle.")
        if distributed:
            raise createPoptorchError(
                "`batch_sampler` option is mutually exclusive with auto_distributed_partitioning: "
                "pass auto_distributed_partitioning=False and let the sampler choose this process's share."
            )

    def _warn_of_remainder(self, dataset: Any) -> None:
        combined = self._combined_batch_size
        if isinstance(dataset, Sized) and combined and len(dataset) % combined:
            logger.warning(
                "The dataset has %d elements, which is not a multiple of the combined batch size (%d): with "
                "drop_last=False the last batch is short, and a model compiled for full batches refuses it.",
                len(dataset),
                combined,
            )


def count_loaded_micro_batches(options: Options) -> int:
    """Micro-batches of distinct data in one call."""
    groups = options.replication_factor // options.input_group_size
    return int(options.device_iterations * groups * options.Training.gradient_accumulation)


class _JoinedBatches:
    """Several batches of a user's sampler as one."""

    def __init__(self, sampler: Iterable[list[int]], count: int, drop_last: bool) -> None:
        self._sampler = sampler
        self._count = count
        self._drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        joined: list[int] = []
        batches = 0
        for batch in self._sampler:
            joined.extend(batch)
            batches += 1
            if batches == self._count:
                yield joined
                joined, batches = [], 0
        if joined and not self._drop_last:
            yield joined

    def __len__(self) -> int:
        batches = len(cast(Sized, self._sampler))
        return batches // self._count if self._drop_last else -(-batches // self._count)


class _ShareSampler(Sampler[int]):
    """This process's contiguous share of a dataset. Every process makes the same permutation, anew each epoch.

    Elements left over by the division are the last ones in even epochs and the first ones in odd epochs.
    """

    def __init__(self, options: Options, dataset: Any, batch_size: int | None, shuffle: bool) -> None:
        assert not isinstance(dataset, IterableDataset), (
            "auto_distributed_partitioning not supported for IterableDataset"
        )
        assert batch_size is not None, "auto_distributed_partitioning needs a batch_size"
        if shuffle:
            assert options.exists("random_seed"), (
                "When using auto_distributed_partitioning you must set poptorch.Options.randomSeed() "
                "to ensure that tensors are in the same order in all processes."
            )
        self._elements = len(dataset)
        self._share: int = self._elements // options.Distributed.numProcesses
        self._process = options.Distributed.processId
        self._processes = options.Distributed.numProcesses
        self._seed = options.random_seed if shuffle else None
        self._epoch = 0

    def __len__(self) -> int:
        return self._share

    def __iter__(self) -> Iterator[int]:
        order = list(range(self._elements))
        if self._seed is not None:
            generator = torch.Generator().manual_seed(self._seed + self._epoch)
            order = torch.randperm(self._elements, generator=generator).tolist()
        leftover = self._elements - self._share * self._processes
        first = self._process * self._share + (leftover if self._epoch % 2 else 0)
        self._epoch += 1
        return iter(order[first : first + self._share])
