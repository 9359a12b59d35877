"""poptorch.AutomaticExecution: stages that nobody had to write, and the same results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import poptorch


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def forward(self, x, target=None):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x if target is None else (x, nn.functional.mse_loss(x, target))


def train(strategy=None):
    torch.manual_seed(0)
    model, options = Layers(), poptorch.Options()
    options.Training.gradientAccumulation(16)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
    training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))
    losses = [float(training(torch.ones(64, 32), torch.zeros(64, 32))[1]) for _ in range(3)]
    return losses, training._compiled.plan


def test_training_in_stages_that_were_found_gives_the_same_losses():
    plain, one = train()
    staged, plan = train(poptorch.AutomaticExecution(ipus_per_replica=2))
    assert staged == plain
    assert one.ipus == 1
    assert plan.ipus == 2
    assert plan.pipeline is not None
    assert plan.options.gradient_accumulation == 16
    assert plan.fit.fits


def test_inference_in_stages_gives_the_same_results():
    torch.manual_seed(0)
    model = Layers().eval()
    options = poptorch.Options().deviceIterations(8)
    options.setExecutionStrategy(poptorch.AutomaticExecution(ipus_per_replica=2))
    staged = poptorch.inferenceModel(model, options)
    x = torch.randn(16, 32)
    torch.testing.assert_close(staged(x), model(x))
    assert staged._compiled.plan.ipus == 2


def test_too_little_accumulation_for_the_stages_is_an_error_of_poptorch():
    model, options = Layers(), poptorch.Options()
    options.setExecutionStrategy(poptorch.AutomaticExecution(ipus_per_replica=4))
    training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match="gradient accumulation"):
        training(torch.ones(4, 32), torch.zeros(4, 32))


def test_a_wrong_number_of_ipus_is_refused_at_once():
    with pytest.raises(AssertionError, match="at least 1"):
        poptorch.AutomaticExecution(ipus_per_replica=0)
    assert repr(poptorch.AutomaticExecution(2)) == "AutomaticExecution(ipus_per_replica=2)"


def test_a_model_that_does_not_fit_is_warned_of_with_the_option_that_helps(caplog):
    """Only the shapes are large: nothing is run."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            return self.layer(x)

    options = poptorch.Options().useOfflineIpuTarget()
    wide = poptorch.inferenceModel(Wide().eval(), options)
    with caplog.at_level("WARNING", logger="openipu"):
        wide.compile(torch.zeros(1, dtype=torch.float32).expand(3_000_000, 64))
    text = caplog.text
    assert "would not fit" in text
    assert "a tile" in text
    assert "opts." in text or "No lever" in text
