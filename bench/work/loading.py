"""One epoch after another from a data loader, with or without training.

In: a way and a number of loader processes. Out: seconds a batch. The data set does on the host what such data sets
do: it scales, shifts and mirrors an image, and adds noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from bench.cells import WAYS, Kind, Way
from bench.models import MODELS
from bench.work.process_figures import wait_until_idle

BATCH = 16
BATCHES = 48


class AugmentedImages(Dataset[tuple[Tensor, Tensor]]):
    """Images with random changes, as a training set has them."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self._images = torch.randint(0, 256, (BATCH * BATCHES, 1, 28, 28), dtype=torch.uint8, generator=generator)
        self._labels = torch.randint(0, 10, (BATCH * BATCHES,), generator=generator)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self._images[index].float() / 255 - 0.5
        rows, columns = torch.randint(-2, 3, (2,)).tolist()
        image = image.roll((rows, columns), (1, 2))
        if index % 2:
            image = image.flip(2)
        return image + 0.05 * torch.randn_like(image), self._labels[index]


class LoaderRunner:
    """A loader with what it feeds."""

    def __init__(self, way: str, training: bool, workers: int) -> None:
        self._way = WAYS[way]
        self._training = training
        self._loader = make_loader(self._way, workers)
        self._consume: Callable[..., Any] = lambda *batch: None

    def prepare(self) -> int:
        """Start the loader's processes and run one epoch; the batch size."""
        if self._training:
            self._consume = make_training_step(self._way)
        for _ in range(2):
            self.run_epoch()
            wait_until_idle(120)  # kernels that are compiled in the background are taken over then
        return BATCH

    def run_epoch(self) -> float:
        """Seconds a batch of one epoch."""
        consume, batches = self._consume, 0
        started = time.perf_counter()
        for images, labels in self._loader:
            consume(images, labels)
            batches += 1
        return (time.perf_counter() - started) / batches


def make_loader(way: Way, workers: int) -> Iterable[Any]:
    """The loader of this way, with processes that stay from epoch to epoch."""
    if way.kind is not Kind.OPENIPU:
        persistent = workers > 0
        return DataLoader(AugmentedImages(), BATCH, shuffle=True, num_workers=workers, persistent_workers=persistent)
    import poptorch

    return poptorch.DataLoader(
        poptorch.Options(),
        AugmentedImages(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=workers,
        mode=poptorch.DataLoaderMode.Async,
    )


def make_training_step(way: Way) -> Callable[[Tensor, Tensor], Any]:
    """A training step of the CNN that takes its batch as arguments."""
    model = MODELS["cnn"]
    torch.manual_seed(0)
    module = model.build().train()
    kind, settings = model.optimizer
    if way.kind is Kind.OPENIPU:
        import poptorch

        options = poptorch.Options()
        options.showCompilationProgressBar(False)
        return poptorch.trainingModel(module, options, getattr(poptorch.optim, kind)(module.parameters(), **settings))
    optimizer = getattr(torch.optim, kind)(module.parameters(), **settings)
    forward = torch.compile(module) if way.kind is Kind.COMPILE else module

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = forward(images, labels)
        loss.backward()
        optimizer.step()
        return loss

    return step
