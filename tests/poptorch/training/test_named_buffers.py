"""`copyNamedBuffersToDevice`: the named buffers go to the device, and nothing else changes there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import poptorch


class Scaled(nn.Module):
    """A weight, a buffer that the host writes, and perhaps one that each run writes."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))
        self.counts = counts
        self.register_buffer("offset", torch.zeros(1))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.counts:
            self.count += 1
        return x * self.weight + self.offset + 100 * self.count


def make_executor(counts: bool) -> tuple[Scaled, Any]:
    model = Scaled(counts)
    options = poptorch.Options().showCompilationProgressBar(False).updatableNamedBuffers(["offset"])
    return model, poptorch.inferenceModel(model.eval(), options)


@pytest.mark.parametrize("counts", [False, True], ids=["nothing written", "a buffer written"])
def test_a_weight_that_the_host_changed_meanwhile_stays_as_the_device_has_it(counts):
    model, executor = make_executor(counts)
    step = 100 if counts else 0
    assert executor(torch.ones(1)).item() == 2 + step
    with torch.no_grad():
        model.offset.fill_(5)
        model.weight.fill_(7)
        model.count.fill_(9)
    executor.copyNamedBuffersToDevice()
    assert executor(torch.ones(1)).item() == 2 + 5 + 2 * step
    executor.copyWeightsToDevice()
    assert executor(torch.ones(1)).item() == 7 + 5 + 900 + step


@pytest.mark.parametrize("counts", [False, True], ids=["nothing written", "a buffer written"])
def test_buffers_may_be_copied_again_and_again(counts):
    model, executor = make_executor(counts)
    for run in range(1, 4):
        model.offset.fill_(run)
        if executor.isCompiled():
            executor.copyNamedBuffersToDevice()
        assert executor(torch.ones(1)).item() == 2 + run + (100 * run if counts else 0)


def test_tensors_whose_changes_nobody_counts_are_read_back():
    with torch.inference_mode():
        model, executor = make_executor(counts=False)
        executor(torch.ones(1))
        model.offset.fill_(5)
        model.weight.fill_(7)
        executor.copyNamedBuffersToDevice()
        assert executor(torch.ones(1)).item() == 2 + 5


def test_a_weight_that_was_replaced_stays_as_the_device_has_it():
    model, executor = make_executor(counts=False)
    executor(torch.ones(1))
    model.weight = nn.Parameter(torch.tensor([7.0]))
    model.offset.fill_(5)
    executor.copyNamedBuffersToDevice()
    assert executor(torch.ones(1)).item() == 2 + 5


def test_weights_that_are_trained_elsewhere_are_fetched_before_a_run():
    model = nn.Linear(1, 1)
    inference = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    before = inference(torch.ones(1, 1)).item()

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return poptorch.identity_loss(self.model(x), "mean")

    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.5)
    training = poptorch.trainingModel(WithLoss(), poptorch.Options().showCompilationProgressBar(False), optimizer)
    training(torch.ones(1, 1))
    # weight and bias each lose 0.5 x a gradient of 1
    assert inference(torch.ones(1, 1)).item() == pytest.approx(before - 1)
