"""Data loaders of a trainer: one item is what one call of a program consumes.

In: datasets, collators, training arguments, options. Out: loaders of combined batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from accelerate.data_loader import SeedableRandomSampler
from optimum.utils import logging
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, Sampler, SequentialSampler
from transformers.trainer_pt_utils import LengthGroupedSampler
from transformers.trainer_utils import has_length, seed_worker

import poptorch
from optimum.graphcore.data import pad_on_batch_axis
from optimum.graphcore.training.random_state import preserve_random_state

logger = logging.get_logger(__name__)

NO_SAMPLE = (
    "Couldn't get first sample from dataloader, please check for warnings during dataloader construction: there are "
    "fewer examples than one batch of all replicas, accumulation steps and device iterations takes."
)


class EpochSampler(SeedableRandomSampler):
    """Shuffles as a plain trainer does: the order of an epoch follows from the seed and the epoch's number."""

    skipped = 0  # examples to leave out at the beginning of the next epoch only

    def __iter__(self) -> Iterator[int]:
        skipped, self.skipped = self.skipped, 0
        return islice(super().__iter__(), skipped, None)


class LoaderMixin:
    """The part of a trainer that loads data."""

    args: Any
    opts: Any
    ipu_config: Any
    data_collator: Callable[..., Any]
    eval_data_collator: Callable[..., Any]
    train_dataset: Any
    eval_dataset: Any

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches for training, shuffled, without the last one if it is short (see `pad_on_batch_axis`)."""
        if self.train_dataset is None:
            raise ValueError("Trainer: training requires a train_dataset.")
        return self._make_train_loader(self.args.dataloader_mode)

    def _make_train_loader(self, mode: Any) -> DataLoader[Any]:
        size = self.args.train_batch_size * self.ipu_config.batch_size_factor()
        dataset, collator = self._strip_columns(self.train_dataset, self.data_collator, "training")
        self._warn_if_too_small(dataset, size)
        keywords = self._list_loader_keywords(collator)
        if not isinstance(dataset, IterableDataset):
            keywords["sampler"] = self._get_train_sampler(dataset)
        if self.args.pad_on_batch_axis and mode == poptorch.DataLoaderMode.Sync:
            padded = pad_on_batch_axis(size)(collator)
            return DataLoader(dataset, batch_size=size, **{**keywords, "collate_fn": padded})
        if mode == poptorch.DataLoaderMode.AsyncRebatched and self.args.dataloader_num_workers:
            keywords["rebatched_worker_size"] = max(1, min(size, 2 * (size // self.args.dataloader_num_workers)))
        return poptorch.DataLoader(
            self.opts, dataset, batch_size=self.args.train_batch_size, drop_last=True, mode=mode, **keywords
        )

    def _make_sample_loader(self) -> DataLoader[Any]:
        """Batches of the same shape as those for training, in any order, from no other process."""
        size = self.args.train_batch_size * self.ipu_config.batch_size_factor()
        dataset, collator = self._strip_columns(self.train_dataset, self.data_collator, "training")
        if self.args.pad_on_batch_axis:
            collator = pad_on_batch_axis(size)(collator)
        return DataLoader(dataset, batch_size=size, drop_last=not self.args.pad_on_batch_axis, collate_fn=collator)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Batches for evaluation, in order. A last short one is filled up when it runs, and cut again."""
        if eval_dataset is None and self.eval_dataset is None:
            raise ValueError("Trainer: evaluation requires an eval_dataset.")
        if isinstance(eval_dataset, str):
            eval_dataset = self.eval_dataset[eval_dataset]
        return self._make_eval_loader(self.eval_dataset if eval_dataset is None else eval_dataset, "evaluation")

    def get_test_dataloader(self, test_dataset: Dataset[Any]) -> DataLoader[Any]:
        """Batches for prediction, in order."""
        return self._make_eval_loader(test_dataset, "test")

    def _make_eval_loader(self, dataset: Any, description: str) -> DataLoader[Any]:
        dataset, collator = self._strip_columns(dataset, self.eval_data_collator, description)
        keywords = self._list_loader_keywords(collator)
        if not isinstance(dataset, IterableDataset):
            keywords["sampler"] = SequentialSampler(dataset)
        return DataLoader(
            dataset, batch_size=self._count_eval_rows(), drop_last=self.args.dataloader_drop_last, **keywords
        )

    def _count_eval_rows(self) -> int:
        """Examples that one call of an evaluation program takes."""
        return int(self.args.eval_batch_size * self.ipu_config.batch_size_factor(for_inference=True))

    def _list_loader_keywords(self, collator: Callable[..., Any]) -> dict[str, Any]:
        workers = self.args.dataloader_num_workers
        keywords: dict[str, Any] = {"collate_fn": collator, "num_workers": workers}
        if workers:
            keywords["worker_init_fn"] = _SeedWorkers(workers)
            keywords["persistent_workers"] = self.args.dataloader_persistent_workers
            keywords["prefetch_factor"] = self.args.dataloader_prefetch_factor
        return keywords

    def _strip_columns(self, dataset: Any, collator: Any, description: str) -> tuple[Any, Callable[..., Any]]:
        """Leave out columns that the model does not take: of a `datasets.Dataset` at once, else batch by batch."""
        if hasattr(dataset, "remove_columns") and getattr(dataset, "column_names", None):
            return self._remove_unused_columns(dataset, description), _ToDictionary(collator)  # type: ignore[attr-defined]
        stripped = self._get_collator_with_removed_columns(collator, description)  # type: ignore[attr-defined]
        return dataset, _ToDictionary(stripped)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int] | None:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        sampler = super()._get_train_sampler(dataset)  # type: ignore[misc]
        if type(sampler) is RandomSampler:
            return EpochSampler(dataset, data_seed=self.args.data_seed)
        if isinstance(sampler, LengthGroupedSampler):
            sampler.batch_size = self.args.train_batch_size * self.ipu_config.batch_size_factor()
        return sampler

    def _take_sample(self, training: bool, dataset: Any = None) -> dict[str, Any]:
        """A full batch to compile with. No random number is used up by it."""
        with preserve_random_state():
            loader = self._make_sample_loader() if training else self._make_eval_loader(dataset, "evaluation")
            batch = next(iter(loader), None)
        if batch is None:
            raise ValueError(NO_SAMPLE)
        return batch

    def _warn_if_too_small(self, dataset: Any, size: int) -> None:
        if not self.args.pad_on_batch_axis and has_length(dataset) and len(dataset) < size:
            logger.warning(
                "The provided dataset is of length %d, but the total dataset batch size is %d. Give more data, a "
                "smaller batch (fewer replicas, accumulation steps or device iterations), or `pad_on_batch_axis`.",
                len(dataset),
                size,
            )


class _ToDictionary:
    """A collator whose batches are plain dictionaries, which is what programs and asynchronous loaders take."""

    def __init__(self, collator: Callable[..., Any]) -> None:
        self.collator = collator

    def __call__(self, examples: list[Any]) -> dict[str, Any]:
        return dict(self.collator(examples))


class _SeedWorkers:
    """Gives each worker process random numbers of its own."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __call__(self, worker: int) -> None:
        seed_worker(worker, num_workers=self.workers, rank=0)


def prepare_inputs(batch: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """The tensors of a batch, those of floating point in the number format of the model."""
    return {
        name: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in batch.items()
        if value is not None
    }
