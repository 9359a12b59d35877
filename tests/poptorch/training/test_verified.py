"""Programs of PopTorch are verified as the environment says, and accumulators in half raise no alarm."""

import warnings

import pytest
import torch

import poptorch
from openipu.run.verify import VerificationWarning


class Sum(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x, labels):
        scores = self.second(torch.relu(self.first(x)))
        return scores, torch.nn.functional.cross_entropy(scores, labels)


def train(accumulation):
    model = Sum()
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(accumulation)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01, accum_type=torch.float16)
    training = poptorch.trainingModel(model, options, optimizer)
    x, labels = torch.randn(8 * accumulation, 8), torch.randint(0, 4, (8 * accumulation,))
    for _ in range(3):
        training(x, labels)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_accumulators_in_half_raise_no_alarm(monkeypatch, accumulation):
    monkeypatch.setenv("OPENIPU_VERIFY", "3")
    with warnings.catch_warnings():
        warnings.simplefilter("error", VerificationWarning)
        train(accumulation)


def test_a_bad_number_of_calls_is_refused(monkeypatch):
    monkeypatch.setenv("OPENIPU_VERIFY", "abc")
    with pytest.raises(poptorch.Error, match="whole number of calls"):
        train(1)
