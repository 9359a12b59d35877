"""A half model that is given float32 images normalises them in float32, and keeps its statistics in half."""

import copy

import pytest
import torch

import poptorch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.convolution, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

    def forward(self, images):
        return poptorch.identity_loss((self.norm(self.convolution(images)) ** 3).float().mean(), "none")


@pytest.mark.parametrize("size", [4, 24])  # few pixels to a plane, and many
def test_training_moves_half_statistics_as_float_ones_do(size):
    model = Net()
    model.half()
    twin = copy.deepcopy(model).float()
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Training.gradientAccumulation(2)
    options.outputMode(poptorch.OutputMode.All)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.01))
    images = torch.linspace(-2, 3, 4 * 3 * size * size).view(4, 3, size, size).sin()
    losses = training(images)
    expected = torch.stack([twin(part) for part in images.chunk(2)])
    assert losses.tolist() == pytest.approx(expected.tolist(), rel=2e-2, abs=1e-3)
    training.copyWeightsToHost()
    assert model.norm.running_mean.dtype is torch.float16
    for name in ("running_mean", "running_var"):
        found, wanted = getattr(model.norm, name), getattr(twin.norm, name)
        assert torch.allclose(found.float(), wanted, rtol=2e-3, atol=1e-3), name


def test_inference_reads_half_statistics_and_writes_none():
    model = Net().eval()
    model.norm.running_mean.fill_(0.5)
    model.half()
    inference = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    images = torch.linspace(-2, 3, 3 * 6 * 6).view(1, 3, 6, 6)
    expected = copy.deepcopy(model).float()(images)
    assert inference(images).item() == pytest.approx(expected.item(), rel=1e-2)
    outputs = inference._compiled.program.micro.outputs
    assert [entry.kind.value for entry in outputs] == ["output"]
