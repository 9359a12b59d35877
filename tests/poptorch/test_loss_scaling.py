"""Automatic loss scaling: the scale follows the half gradients, the results do not."""

import pytest
import torch

import poptorch


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.half()

    def forward(self, x):
        out = self.layer(x)
        return out, poptorch.identity_loss(out.float() ** 2, "mean")


def train(automatic, steps, size=1.0, **settings):
    torch.manual_seed(0)
    model, options = Half(), poptorch.Options().showCompilationProgressBar(False)
    if automatic:
        options.Training.setAutomaticLossScaling(True)
        options.anchorTensor("scale", "finalLossScale")
    for name, value in settings.items():
        options._Popart.set(f"automaticLossScalingSettings.{name}", value)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, loss_scaling=4.0)
    trainer = poptorch.trainingModel(model, options, optimizer)
    batch = size * torch.ones(2, 4, dtype=torch.half)
    losses = [trainer(batch)[1].item() for _ in range(steps)]
    return losses, trainer, optimizer


def test_the_scale_doubles_while_gradients_are_small_and_losses_stay():
    losses, trainer, optimizer = train(True, steps=9)
    assert trainer.getAnchoredTensor("scale").item() == 8.0  # 4, doubled after 8 updates
    assert optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"].item() == 2.0
    assert losses == pytest.approx(train(False, steps=9)[0], rel=1e-2)


def test_the_scale_is_halved_when_gradients_are_large():
    _, trainer, _ = train(True, steps=3, updatePeriod=1, binEdgeLocation=1e-6)
    assert trainer.getAnchoredTensor("scale").item() == 1.0  # 4, halved after each of two updates
