"""Models of the export tests, and how their files are run."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Classifier(nn.Module):
    """Convolution, statistics, windows and a product, with a loss of its own."""

    def __init__(self, dropout: float = 0.0, groups: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, groups=groups, padding=1),
            nn.MaxPool2d(2),
            nn.AvgPool2d(2),
            nn.Flatten(),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Linear(32, 5),
        )

    def forward(self, image: torch.Tensor, label: torch.Tensor | None = None) -> Any:
        scores = self.body(image)
        return scores if label is None else (scores, F.cross_entropy(scores, label))


class Sequences(nn.Module):
    """A recurrent layer of both directions."""

    def __init__(self, kind: type[nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.layer = kind(4, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 3)

    def forward(self, steps: torch.Tensor, label: torch.Tensor | None = None) -> Any:
        scores = self.head(self.layer(steps)[0][:, -1])
        return scores if label is None else (scores, F.cross_entropy(scores, label))


def make_images(seed: int = 0, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, 16, 16, generator=generator), torch.randint(0, 5, (batch,), generator=generator)


def import_file(path: Path) -> Any:
    """The exported class."""
    specification = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.Model()


def train_eager(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence[Sequence[torch.Tensor]], parts: int = 1
) -> list[float]:
    """Losses of plain PyTorch; each batch is cut into parts, whose mean gradient is applied."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        for part in zip(*(value.chunk(parts) for value in batch), strict=True):
            loss = model(*part)[-1]
            (loss / parts).backward()
            losses.append(loss.item())
        optimizer.step()
    return losses
