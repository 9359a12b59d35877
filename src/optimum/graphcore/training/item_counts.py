"""What a micro-batch divides the sum of its losses by, so that every label of an update counts the same.

In: the batch of one call, with labels. Out: the batch with one number for each micro-batch. A program averages the
losses of the micro-batches of an update; a loss that is the sum of a micro-batch, divided by this share of all labels,
makes that average the mean over labels, as in Transformers. Without it, it is the mean of the micro-batches' means.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

ITEM_COUNT = "num_items_in_batch"  # the argument of `compute_loss` and of models


def add_item_counts(trainer: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """The batch of one call of the training program. Nothing is added where nothing would use it."""
    config = trainer.ipu_config
    micro_batches = config.replication_factor * config.gradient_accumulation_steps
    if micro_batches == 1 or ITEM_COUNT not in inspect.signature(trainer.compute_loss).parameters:
        return batch
    counts = []
    for iteration in range(config.device_iterations):
        part = {
            name: value.chunk(config.device_iterations)[iteration]
            for name, value in batch.items()
            if name in ("labels", "shift_labels") and isinstance(value, torch.Tensor) and value.dim()
        }
        count = trainer._get_num_items_in_batch([part], torch.device("cpu"))
        if count is None:
            return batch
        counts += [float(count) / micro_batches] * micro_batches
    return {**batch, ITEM_COUNT: torch.tensor(counts)}
