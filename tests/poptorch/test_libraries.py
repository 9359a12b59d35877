"""What libraries on top of PopTorch reach for, beside its models: its version, its wrapping, the ops that it ships."""

from __future__ import annotations

import importlib.metadata
import pickle

import pytest
import torch
from torch import nn

import poptorch
from poptorch._impl import rewrapModelIfNecessary, unwrapModelIfNecessary


def quiet() -> poptorch.Options:
    return poptorch.Options().showCompilationProgressBar(False)


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x, y=None):
        out = self.layer(x) * self.scale
        return out if y is None else poptorch.identity_loss(((out - y) ** 2).mean(), "none")


def test_the_installed_version_of_poptorch_can_be_asked_for():
    assert importlib.metadata.version("poptorch") == poptorch.__version__
    assert importlib.metadata.version("PopTorch") == poptorch.__version__
    metadata = importlib.metadata.metadata("poptorch")
    assert metadata["Name"] == "poptorch"
    assert "openipu" in metadata["Summary"]
    assert importlib.metadata.requires("poptorch") == ["openipu"]


def test_a_distribution_that_is_installed_comes_before_ours(tmp_path, monkeypatch):
    installed = tmp_path / "poptorch-3.2.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: poptorch\nVersion: 3.2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.metadata.version("poptorch") == "3.2.0"


def test_ours_is_no_answer_to_other_questions():
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("poptorch-experimental-addons")
    assert "poptorch" not in [distribution.name for distribution in importlib.metadata.distributions()]


def test_a_wrapped_model_is_plain_until_it_is_wrapped_again():
    torch.manual_seed(0)
    model = Regression()
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    before = model.layer.weight.detach().clone()
    training = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.5))
    training(x, y)
    unwrapModelIfNecessary(model)
    assert type(model) is Regression
    assert type(model.layer.weight) is nn.Parameter
    assert type(model.scale) is torch.Tensor
    trained = model.layer.weight.detach().clone()
    assert not torch.equal(trained, before)  # what training did was fetched first
    answer = poptorch.inferenceModel(model, quiet())(x)
    torch.testing.assert_close(answer, x @ trained.t() + model.layer.bias)
    rewrapModelIfNecessary(model)
    assert type(model).__name__ == "PoptorchRegression"
    training(x, y)
    assert not torch.equal(model.layer.weight, trained)  # it is fetched on access again
    assert type(pickle.loads(pickle.dumps(model))) is Regression


def test_unwrapping_leaves_a_plain_model_alone():
    model = Regression()
    unwrapModelIfNecessary(model)
    rewrapModelIfNecessary(model)
    assert type(model) is Regression


def test_what_was_destroyed_is_not_wrapped_again():
    model = Regression()
    training = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1))
    training(torch.ones(2, 3), torch.ones(2, 1))
    unwrapModelIfNecessary(model)
    training.destroy()
    rewrapModelIfNecessary(model)
    assert type(model) is Regression
    assert type(model.layer.weight) is nn.Parameter


def test_training_goes_on_after_a_library_made_parameters_anew():
    torch.manual_seed(0)
    model = Regression()
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, quiet(), optimizer)
    first = training(x, y)
    training.detachFromDevice()
    unwrapModelIfNecessary(model)
    layer = nn.Linear(3, 1)
    layer.load_state_dict(model.layer.state_dict())
    model.layer = layer
    rewrapModelIfNecessary(model)
    optimizer.param_groups[0]["lr"] = 0.2
    training.setOptimizer(optimizer)
    training.attachToDevice()
    second, third = training(x, y), training(x, y)
    assert third < second < first
    training.copyWeightsToHost()
    reached = ((model.layer(x) - y) ** 2).mean()
    torch.testing.assert_close(reached, training(x, y))


def test_the_compiled_optimizer_with_another_group_is_another_program():
    model = Regression()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, quiet(), optimizer)
    training(torch.ones(2, 3), torch.ones(2, 1))
    optimizer.add_param_group({"params": [optimizer.param_groups[0]["params"].pop()]})
    with pytest.raises(poptorch.Error, match="has other parameters in its groups"):
        training.setOptimizer(optimizer)


def gather(data: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    example = torch.zeros_like(index, dtype=data.dtype)
    return poptorch.custom_op([data, index], "FastGatherLastDim", "poptorch.custom_ops", 1, [example], {"axis": -1})[0]


class Gather(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.arange(24.0).view(2, 3, 4))

    def forward(self, index):
        picked = gather(self.table, index)
        return picked, poptorch.identity_loss(picked, "sum")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_the_fast_gather_that_poptorch_ships_is_there_with_its_gradient(dtype):
    model = Gather()
    index = torch.tensor([[3, 0], [1, 1], [2, 3]], dtype=dtype).repeat(2, 1, 1)
    expected = torch.gather(model.table.detach(), -1, index.long())
    assert torch.equal(gather(model.table.detach(), index), expected)
    training = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=1.0))
    picked, _ = training(index)
    assert torch.equal(picked, expected)
    used = torch.zeros(2, 3, 4).scatter_add(-1, index.long(), torch.ones(2, 3, 2))
    assert torch.equal(model.table.detach(), torch.arange(24.0).view(2, 3, 4) - used)


@pytest.mark.parametrize("shape", [(1, 3, 2), (3, 2)])
def test_the_fast_gather_refuses_an_index_of_another_shape(shape):
    model = poptorch.inferenceModel(Gather(), quiet())
    with pytest.raises(poptorch.Error, match=r"same sizes before it.* torch\.gather"):
        model(torch.zeros(shape, dtype=torch.int64))
