"""`poptorch.DataLoader`: torch's loader with the batch that one call of a model consumes.

In: options, a dataset and the micro-batch size. Out: combined batches, ordered as the model splits them:
batch_size x deviceIterations x gradientAccumulation x (replicationFactor / input group size).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sized
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree
from torch.utils.data import IterableDataset

from openipu.trace import DATA, is_tracing, trace_iterator
from poptorch._args_parser import prepare_types
from poptorch._async_accessor import AsynchronousDataAccessor
from poptorch._async_worker import explain_no_batch
from poptorch._logging import logger
from poptorch._share_sampler import ShareSampler
from poptorch.enums import DataLoaderMode
from poptorch.errors import createPoptorchError
from poptorch.options import Options

__all__ = ["AsynchronousDataAccessor", "DataLoader", "count_loaded_micro_batches"]


class DataLoader(torch.utils.data.DataLoader[Any]):
    """Loads what one call of a model consumes. `drop_last` is True unless told otherwise: shapes are static."""

    _accessor: AsynchronousDataAccessor | None = None

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
        distributed = options.Distributed.numProcesses > 1 and auto_distributed_partitioning
        self._joined_batches = 1  # batches of a user's sampler in one of ours
        micro_batches = count_loaded_micro_batches(options)
        if batch_sampler is not None:
            _check_sampler(batch_size, shuffle, distributed)
            batch_size = getattr(batch_sampler, "batch_size", 1)
            self._joined_batches = micro_batches
        self._combined_batch_size = None if batch_size is None else batch_size * micro_batches
        self.rebatched_drop_last = drop_last
        asynchronous = mode != DataLoaderMode.Sync
        combined = self._combined_batch_size
        short_batches = not drop_last and combined is not None and combined > 1
        rebatches = mode == DataLoaderMode.AsyncRebatched or (asynchronous and short_batches)
        self._rebatched_size = combined if rebatches else None
        self.leaves_short_batches = batch_sampler is None and short_batches
        loaded_size = self._choose_loaded_size(rebatched_worker_size)
        _check_iterable(dataset, num_workers, distributed, kwargs)
        keywords = dict(kwargs, num_workers=num_workers)
        keywords["persistent_workers"] = num_workers > 0 if persistent_workers is None else persistent_workers
        if not drop_last:
            _warn_of_remainder(dataset, batch_sampler, combined, micro_batches, options.Distributed.numProcesses)
        if batch_sampler is not None:
            super().__init__(dataset, batch_sampler=cast(Any, batch_sampler), **keywords)
        else:
            if distributed and "sampler" not in keywords:
                keywords["sampler"] = _make_share_sampler(options, dataset, combined, bool(shuffle), drop_last)
                shuffle = False
            if not isinstance(dataset, IterableDataset):
                keywords["shuffle"] = bool(shuffle)
            # Where batches are put together anew, nothing is lost before that.
            drops = drop_last and loaded_size is not None and not rebatches
            super().__init__(dataset, batch_size=loaded_size, drop_last=drops, **keywords)
        self._check_batches(asynchronous)
        if asynchronous:
            self._start_accessor(async_options or {})

    def _check_batches(self, asynchronous: bool) -> None:
        """Say that there is nothing to load, where that is known: an epoch would pass without a word."""
        try:
            if len(self) > 0:
                return
        except TypeError:  # a dataset, or a sampler, that does not know its length
            return
        reason = explain_no_batch(self)
        if asynchronous:
            raise createPoptorchError(reason)
        logger.warning(reason)

    def _choose_loaded_size(self, rebatched_worker_size: int | None) -> int | None:
        """The batch that workers load."""
        if self._rebatched_size is None or rebatched_worker_size is None:
            return self._combined_batch_size
        assert rebatched_worker_size <= self._rebatched_size, (
            f"The rebatched_worker_size ({rebatched_worker_size}) must be <= to the combined batch size "
            f"({self._rebatched_size})"
        )
        return rebatched_worker_size

    def _start_accessor(self, async_options: dict[str, Any]) -> None:
        assert "rebatched_size" not in async_options, (
            "rebatched_size cannot be among the async_options: it is the combined batch size. "
            "Use DataLoaderMode.AsyncRebatched."
        )
        size = self._rebatched_size if (self._rebatched_size or 0) > 1 else None
        accessor = AsynchronousDataAccessor(self, **async_options, rebatched_size=size)
        accessor._dataset = weakref.proxy(self)  # otherwise loader and accessor would keep each other alive
        self._accessor = accessor

    def __len__(self) -> int:
        if self._joined_batches > 1:
            return self._divide(len(cast(Sized, self.batch_sampler)), self._joined_batches)
        if self._rebatched_size is not None and self.batch_size is not None:
            iterable = isinstance(self.dataset, IterableDataset)
            elements = len(cast(Sized, self.dataset)) if iterable else len(cast(Sized, self.sampler))
            return self._divide(elements, self._rebatched_size)
        return super().__len__()

    def _divide(self, count: int, size: int) -> int:
        return count // size if self.rebatched_drop_last else -(-count // size)

    @property
    def combinedBatchSize(self) -> int | None:
        """Elements in one batch of this loader; None when the dataset makes its own batches."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        return self._options

    def __iter__(self) -> Any:
        if self._accessor is not None:
            return iter(self._accessor)
        batches: Iterator[Any] = super().__iter__()
        if self._joined_batches > 1:
            batches = _join_batches(batches, self._joined_batches, self.rebatched_drop_last)
        return trace_iterator(batches, DATA, "DataLoader: next batch") if is_tracing() else batches

    def terminate(self) -> None:
        """End the background process of the asynchronous modes; without effect in the others."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __del__(self) -> None:
        self.terminate()


def count_loaded_micro_batches(options: Options) -> int:
    """Micro-batches of distinct data in one call."""
    groups = options.replication_factor // options.input_group_size
    return int(options.device_iterations * groups * options.Training.gradient_accumulation)


def _check_sampler(batch_size: int | None, shuffle: bool | None, distributed: bool) -> None:
    if batch_size != 1 or shuffle:
        raise createPoptorchError("`batch_sampler` option is mutually exclusive with batch_size, shuffle.")
    if distributed:
        raise createPoptorchError(
            "`batch_sampler` option is mutually exclusive with auto_distributed_partitioning=True: "
            "pass auto_distributed_partitioning=False and let the sampler choose this process's share."
        )


def _check_iterable(dataset: Any, num_workers: int, distributed: bool, kwargs: dict[str, Any]) -> None:
    if not isinstance(dataset, IterableDataset):
        return
    assert not distributed, "auto_distributed_partitioning not supported for IterableDataset"
    if num_workers > 1 and kwargs.get("worker_init_fn") is None:
        logger.warning(
            "IterableDataset used with num_workers=%d but no worker_init_fn specified: the DataLoader returns every "
            "element %d times. Pass a worker_init_fn that gives each worker its part of the dataset.",
            num_workers,
            num_workers,
        )


def _warn_of_remainder(
    dataset: Any, batch_sampler: Any, combined: int | None, micro_batches: int, processes: int
) -> None:
    """Say that the last batch will be short, where that is known."""
    if combined is None or isinstance(dataset, IterableDataset):
        return
    try:
        count, size = (
            (len(dataset), combined * processes) if batch_sampler is None else (len(batch_sampler), micro_batches)
        )
    except TypeError:  # a sampler that does not know
        logger.warning("The batch_sampler has no length and drop_last=False: the last batch may be short.")
        return
    if count % size:
        logger.warning(
            "The number of %s (%d) is not divisible by that of one step (%d) and drop_last=False: the last batch is "
            "short, and a model compiled for full batches refuses it. Use drop_last=True to leave it out.",
            "elements in the dataset" if batch_sampler is None else "batches of the batch_sampler",
            count,
            size,
        )


def _make_share_sampler(
    options: Options, dataset: Any, combined: int | None, shuffle: bool, drop_last: bool
) -> ShareSampler:
    assert combined is not None, "batch_size=None not allowed when using auto_distributed_partitioning."
    assert not shuffle or options.exists("random_seed"), (
        "When using auto_distributed_partitioning you must set poptorch.Options.randomSeed() "
        "to ensure that tensors are in the same order in all processes."
    )
    return ShareSampler(
        len(dataset),
        combined,
        options.Distributed.processId,
        options.Distributed.numProcesses,
        drop_last=drop_last,
        seed=options.random_seed if shuffle else None,
    )


def _join_batches(batches: Iterator[Any], count: int, drop_last: bool) -> Iterator[Any]:
    """Several batches, each collated by itself, as one along the first dimension."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if len(waiting) == count:
            yield _concatenate(waiting)
            waiting = []
    if waiting and not drop_last:
        yield _concatenate(waiting)


def _concatenate(batches: list[Any]) -> Any:
    prepare_types(batches)
    flat = [pytree.tree_leaves(batch) for batch in batches]
    joined = [torch.cat(parts) if isinstance(parts[0], torch.Tensor) else parts[0] for parts in zip(*flat, strict=True)]
    return pytree.tree_unflatten(joined, pytree.tree_structure(batches[0]))
