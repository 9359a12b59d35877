"""Data loaders that bring what one call of a program consumes.

In: the user's loader, with the batch of one micro-batch. Out: a `poptorch.DataLoader` over the same data in the same
order, or the user's own loader with several of its batches joined, where it cannot be made anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

import poptorch
from lightning_graphcore._registration.packages import Package
from poptorch._logging import logger
from poptorch.dataloader import _join_batches, count_loaded_micro_batches

_KEPT = (
    "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator", "prefetch_factor",
    "pin_memory_device", "in_order",
)  # fmt: skip


class JoinedLoader:
    """Several batches of any iterable as one, along the first dimension."""

    def __init__(self, loader: Iterable[Any], count: int, drop_last: bool) -> None:
        self.loader, self.count, self.drop_last = loader, count, drop_last

    def __iter__(self) -> Iterator[Any]:
        return _join_batches(iter(self.loader), self.count, self.drop_last)

    def __len__(self) -> int:
        batches = len(self.loader)  # type: ignore[arg-type]
        return batches // self.count if self.drop_last else -(-batches // self.count)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)


def convert_loader(loader: Any, options: poptorch.Options, *, training: bool, strict: bool, package: Package) -> Any:
    """A loader for programs with these options. PopTorch's own loaders are the user's choice and stay."""
    if isinstance(loader, poptorch.DataLoader | JoinedLoader):
        return loader
    count = count_loaded_micro_batches(options)
    plain = type(loader) is DataLoader  # a subclass may load in its own way
    if plain and count > 1 and _tracks_plain_batches(loader):
        return _enlarge_tracked(loader, count)
    if strict and count > 1 and isinstance(loader, DataLoader) and not _has_plain_sampler(loader):
        raise package.configuration_error(
            f"The data loader has a batch sampler of its own ({type(loader.batch_sampler).__name__}), which is not "
            "supported with several IPUs. Pass batch_size and a sampler, or leave the strict mode."
        )
    if not plain or (loader.batch_size is None and loader.batch_sampler is None):
        return loader if count == 1 else JoinedLoader(loader, count, drop_last=training)
    # A short last batch is a program of its own. Replicas and accumulation steps of training cannot share one.
    drop_last = bool(loader.drop_last) or (training and count > 1 and not strict)
    with nullcontext() if strict else _hush_remainders():
        made = _make_anew(loader, options, drop_last)
    if drop_last and not loader.drop_last and _has_plain_sampler(loader):
        _say_what_is_left(loader, made, count, package)
    return made


def _make_anew(loader: DataLoader[Any], options: poptorch.Options, drop_last: bool) -> poptorch.DataLoader:
    shared = _list_settings(loader)
    if not _has_plain_sampler(loader):
        return poptorch.DataLoader(
            options, loader.dataset, batch_sampler=loader.batch_sampler, drop_last=drop_last, **shared
        )
    if not isinstance(loader.dataset, IterableDataset):
        shared["sampler"] = loader.sampler
    return poptorch.DataLoader(options, loader.dataset, loader.batch_size, drop_last=drop_last, **shared)


def _list_settings(loader: DataLoader[Any]) -> dict[str, Any]:
    found = {name: getattr(loader, name) for name in _KEPT if hasattr(loader, name)}
    if not found.get("pin_memory_device"):
        found.pop("pin_memory_device", None)
    if loader.num_workers == 0:
        found.pop("prefetch_factor", None)
    return {**found, "num_workers": loader.num_workers, "persistent_workers": loader.persistent_workers}


@contextmanager
def _hush_remainders() -> Iterator[None]:
    """PopTorch warns of a short last batch, which its models refuse. Here it is run."""

    def is_other(record: logging.LogRecord) -> bool:
        return "drop_last=False" not in str(record.msg)

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def _tracks_plain_batches(loader: DataLoader[Any]) -> bool:
    """For predictions Lightning puts a sampler around the loader's own that remembers the indices of each batch."""
    return type(getattr(loader.batch_sampler, "_batch_sampler", None)) is BatchSampler


def _enlarge_tracked(loader: DataLoader[Any], count: int) -> DataLoader[Any]:
    """The same with the batches of whole calls, so that the remembered indices are those of a call."""
    tracked: Any = loader.batch_sampler
    inner = tracked._batch_sampler
    sampler = type(tracked)(BatchSampler(inner.sampler, inner.batch_size * count, inner.drop_last))
    return DataLoader(loader.dataset, batch_sampler=sampler, **_list_settings(loader))


def _has_plain_sampler(loader: DataLoader[Any]) -> bool:
    """Does the loader cut the order of its sampler into batches itself?"""
    return loader.batch_sampler is None or (
        type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None
    )


def _say_what_is_left(loader: DataLoader[Any], made: Any, count: int, package: Package) -> None:
    try:
        samples, used = len(loader.sampler), len(made) * (made.combinedBatchSize or 0)  # type: ignore[arg-type]
    except TypeError:  # an iterable does not know
        return
    if samples == used:
        return
    if used == 0:
        raise package.configuration_error(
            f"The training data has {samples} samples, and one call of the program needs {made.combinedBatchSize}: "
            f"batch_size {loader.batch_size} for each of {count} micro-batches (device iterations x accumulation x "
            "replicas). Use a smaller batch_size, or fewer of these."
        )
    package.inform(
        f"{samples - used} of {samples} training samples are left out of each epoch, because a call takes "
        f"{made.combinedBatchSize} at once: {count} micro-batches of {loader.batch_size}."
    )
