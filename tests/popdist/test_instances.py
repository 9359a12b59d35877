"""What an executable exchanges with other instances, seen with a stand-in for them."""

import dataclasses

import pytest
import torch

import poptorch
from openipu.errors import InstanceError
from openipu.run import membership
from openipu.run.instances import InstanceGroup, join_instances


class EqualInstances(InstanceGroup):
    """Other instances that have the very same gradients."""

    def __init__(self, count):
        super().__init__(0, count)
        self.events = []

    def sum_gradients(self, gradients):
        self.events.append(("gradients", len(gradients)))
        torch._foreach_mul_(list(gradients.values()), float(self.count))

    def find_source(self, has_news):
        self.events.append(("news", has_news))
        return 0 if has_news else None

    def share(self, tensors, source):
        self.events.append(("share", source))

    def sum_counts(self, counts):
        return [count * self.count for count in counts]


def train(instances, monkeypatch, *, calls=2, reduction=poptorch.ReductionType.Mean, accumulation=2, clip=None):
    group = EqualInstances(instances)
    monkeypatch.setattr(membership, "join_instances", lambda count: group)
    options = poptorch.Options().deviceIterations(3).replicationFactor(2).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(accumulation)
    options.Training.accumulationAndReplicationReductionType(reduction)
    options.Distributed.configureProcessId(0, instances)
    torch.manual_seed(1)
    layer = torch.nn.Linear(3, 2)
    optimizer = poptorch.optim.SGD(layer.parameters(), lr=0.1)
    if clip is not None:
        optimizer = poptorch.optim.AdamW(layer.parameters(), lr=0.1, max_grad_norm=clip)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            out = self.layer(x)
            return out, poptorch.identity_loss(out * out, reduction="mean")

    model = poptorch.trainingModel(Model(), options, optimizer)
    data = torch.randn(3 * 2 * accumulation, 3, generator=torch.Generator().manual_seed(2))
    for _ in range(calls):
        model(data)
    model.copyWeightsToHost()
    return layer.weight.detach().clone(), group.events


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("clip", [None, 0.01])
def test_the_mean_over_equal_instances_is_that_of_one(monkeypatch, accumulation, clip):
    alone, events = train(1, monkeypatch, accumulation=accumulation, clip=clip)
    assert events == []
    together, _ = train(4, monkeypatch, accumulation=accumulation, clip=clip)
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=1e-6)


def test_a_sum_is_over_all_instances(monkeypatch):
    sums, _ = train(2, monkeypatch, calls=1, reduction=poptorch.ReductionType.Sum)
    alone, _ = train(1, monkeypatch, calls=1, reduction=poptorch.ReductionType.Sum)
    assert not torch.allclose(sums, alone)


def test_gradients_are_exchanged_once_an_update_and_news_once_a_call(monkeypatch):
    _, events = train(4, monkeypatch, calls=2)
    updates = [("gradients", 2)] * 3  # weight and bias, once for each of 3 device iterations
    assert events == [("news", True), ("share", 0), *updates, ("news", False), *updates]


def test_seeds_of_an_instance_are_those_its_replicas_have_in_the_whole_job():
    seeds = torch.arange(12)  # 2 steps x 3 instances x 2 replicas
    parts = [InstanceGroup(index, 3).take_own(seeds, 2) for index in range(3)]
    assert [part.tolist() for part in parts] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]


def test_a_program_that_cannot_find_the_others_says_how_to_start_it(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InstanceError, match=r"one of 2 instances .* Start it with poprun"):
        join_instances(2)
    options = poptorch.Options().showCompilationProgressBar(False)
    options.Distributed.configureProcessId(1, 2)
    model = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    assert model(torch.ones(1, 2)).shape == (1, 2)  # inference shares nothing


def test_options_that_are_wrong_are_refused():
    from openipu.errors import OptionError
    from openipu.graph import RunOptions

    with pytest.raises(OptionError, match="instances must be a whole number"):
        dataclasses.replace(RunOptions(), instances=0)
