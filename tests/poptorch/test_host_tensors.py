"""Programs of PopTorch 2 read tensors of the host in forward."""

import pytest
import torch

import poptorch


class Anchored(torch.nn.Module):
    """Anchors in a plain list, as detectors keep them: no module moves them to a device."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.body = torch.nn.Linear(3, 4)
        self.anchors = [torch.tensor([1.0, 2.0, 4.0, 8.0]), torch.tensor([[0.5], [0.25]])]

    def forward(self, x):
        return poptorch.identity_loss(self.body(x) / self.anchors[0].unsqueeze(0) * self.anchors[1], "sum")


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def test_they_are_refused_with_the_way_out():
    model = poptorch.inferenceModel(Anchored(), quiet())
    with pytest.raises(poptorch.Error, match="OPENIPU_HOST_TENSORS=constants"):
        model(torch.ones(2, 3))


def test_they_become_constants_where_that_is_asked_for(monkeypatch):
    monkeypatch.setenv("OPENIPU_HOST_TENSORS", "constants")
    model, twin = Anchored(), Anchored()
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for x in torch.linspace(-1, 1, 12).view(2, 2, 3):
        loss = training(x)
        optimizer.zero_grad()
        expected = twin(x)
        expected.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    model.anchors[0].mul_(2)  # too late: the program has its own
    assert training(x).item() == pytest.approx(twin(x).item(), rel=1e-5)


class Writing(Anchored):
    def forward(self, x):
        self.anchors[0].add_(x.sum(0).sum())
        return self.body(x)


def test_a_write_to_one_is_refused_all_the_same(monkeypatch):
    monkeypatch.setenv("OPENIPU_HOST_TENSORS", "constants")
    with pytest.raises(poptorch.Error, match="Expected an IPU tensor"):
        poptorch.inferenceModel(Writing(), quiet())(torch.ones(2, 3))
