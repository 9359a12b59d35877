"""Weights that differ between groups of replicas."""

import pytest
import torch

import poptorch


class Product(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weight = torch.nn.Parameter(weights)
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x):
        out = x * self.weight + self.bias
        return out, poptorch.identity_loss(out, "sum")


def make_trainer(weights, replicas=4, lr=1.0):
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(replicas)
    model = Product(weights)
    return model, poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=lr))


INPUT = torch.tensor([[1.0], [2.0], [3.0], [4.0]])


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        (poptorch.CommGroupType.Consecutive, [[0, 1], [2, 3]]),
        (poptorch.CommGroupType.Orthogonal, [[0, 2], [1, 3]]),
    ],
)
def test_gradients_are_summed_within_a_group(kind, groups):
    model, trainer = make_trainer(torch.tensor([[10.0], [20.0]]))
    trainer.weight.replicaGrouping(kind, 2, poptorch.VariableRetrievalMode.OnePerGroup)
    out, _ = trainer(INPUT)
    start = torch.tensor([10.0, 20.0])
    group_of = {replica: index for index, members in enumerate(groups) for replica in members}
    assert out.flatten().tolist() == [float(INPUT[r, 0] * start[group_of[r]]) for r in range(4)]
    # Mean over all 4 replicas of the loss, of which each group's weight sees its own 2.
    expected = [start[index] - sum(INPUT[r, 0] for r in members) / 4 for index, members in enumerate(groups)]
    assert torch.allclose(model.weight.flatten(), torch.stack(expected))
    assert model.bias.item() == -1.0  # shared: mean of 4 ones


def test_every_replica_may_have_weights_and_state_of_its_own():
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(4)
    model = Product(torch.zeros(4, 1))
    optimizer = poptorch.optim.AdamW([model.weight], lr=0.1)
    model.bias.requires_grad_(False)
    trainer = poptorch.trainingModel(model, options, optimizer)
    trainer.weight.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup)
    trainer(INPUT)
    state = optimizer.state_dict()["ipu_state"]
    assert state
    assert all(value.shape[0] == 4 for value in state.values())
    trainer.destroy()
    assert model.weight.shape == (4, 1)
    trainer(INPUT)  # state and weights are written back, each to its replica


def test_all_replicas_can_be_read_back():
    model, trainer = make_trainer(torch.tensor([[1.0], [1.0], [2.0], [2.0]]))
    trainer.weight.replicaGrouping(poptorch.CommGroupType.Consecutive, 2, poptorch.VariableRetrievalMode.AllReplicas)
    trainer(INPUT)
    assert model.weight.flatten().tolist() == [0.25, 0.25, 0.25, 0.25]  # 1 - 3/4 and 2 - 7/4


def test_scalars_and_wrong_shapes_are_refused():
    model, trainer = make_trainer(torch.zeros(3, 1))
    mode = poptorch.VariableRetrievalMode.OnePerGroup
    with pytest.raises(poptorch.Error, match="Scalars cannot be passed"):
        trainer.bias.replicaGrouping(poptorch.CommGroupType.Consecutive, 2, mode)
    with pytest.raises(poptorch.Error, match="groups of 3"):
        trainer.weight.replicaGrouping(poptorch.CommGroupType.Consecutive, 3, mode)
    trainer.weight.replicaGrouping(poptorch.CommGroupType.Consecutive, 2, mode)
    with pytest.raises(poptorch.Error, match="its first dimension must be 2"):
        trainer(INPUT)
    assert model.weight.shape == (3, 1)


def test_inference_reads_a_value_for_each_group_and_the_model_stays_as_it_was(tmp_path):
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight = torch.nn.Parameter(torch.tensor([[[2.0]], [[3.0]]]))
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(2)
    executor = poptorch.inferenceModel(model, options)
    executor.weight.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup)
    assert executor(torch.ones(2, 1)).flatten().tolist() == [2.0, 3.0]
    torch.save(model, tmp_path / "model.pt")
    assert not hasattr(model.weight, "replicaGrouping")
