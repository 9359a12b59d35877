"""What is compiled: the model and everything of the trainer that belongs to one step, as one module.

In: a model, and the trainer's `compute_loss`, also a user's own. Out: modules whose `forward` takes a batch by name and
returns the loss, or the loss and predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

import poptorch
from optimum.graphcore.training.item_counts import ITEM_COUNT

ComputeLoss = Callable[..., Any]


class TrainingStep(nn.Module):
    """One micro-batch of training."""

    def __init__(self, model: nn.Module, compute_loss: ComputeLoss) -> None:
        super().__init__()
        self.model = model
        self._compute_loss = compute_loss

    def forward(self, **inputs: Any) -> torch.Tensor:
        counts = {ITEM_COUNT: inputs.pop(ITEM_COUNT).squeeze()} if ITEM_COUNT in inputs else {}
        loss = self._compute_loss(self.model, dict(inputs), **counts)
        return poptorch.identity_loss(loss.float(), reduction="none")


class EvaluationStep(nn.Module):
    """One micro-batch of evaluation or prediction: the loss if there are labels, then what the model predicts."""

    def __init__(
        self, model: nn.Module, compute_loss: ComputeLoss, with_loss: bool, loss_only: bool, ignored: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.model = model
        self._compute_loss = compute_loss
        self.with_loss = with_loss
        self.loss_only = loss_only
        self.ignored = ignored

    def forward(self, **inputs: Any) -> tuple[Any, ...]:
        if not self.with_loss:
            return tuple(self._list_predictions(self.model(**inputs), first=0))
        loss, outputs = self._compute_loss(self.model, dict(inputs), return_outputs=True)
        if self.loss_only:
            return (loss.float(),)
        return (loss.float(), *self._list_predictions(outputs, first=1))

    def _list_predictions(self, outputs: Any, first: int) -> list[Any]:
        if isinstance(outputs, Mapping):
            named = [value for name, value in outputs.items() if name != "loss" and name not in self.ignored]
        else:
            named = list(outputs[first:]) if isinstance(outputs, list | tuple) else [outputs]
        return [value for value in named if _holds_tensors_only(value)]


def _holds_tensors_only(value: Any) -> bool:
    """Caches and other objects stay on the device."""
    if isinstance(value, list | tuple):
        return len(value) > 0 and all(map(_holds_tensors_only, value))
    return isinstance(value, torch.Tensor)
