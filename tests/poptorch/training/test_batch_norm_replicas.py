"""Batch norms of several replicas: each replica keeps its own statistics, and the host reads those of the first."""

import copy
import logging

import pytest
import torch
from torch import nn

import poptorch

WORDS = "each keep running statistics of their own"


class Normalised(nn.Module):
    """Two norms, one of them applied twice."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
        self.last, self.twice = nn.Linear(4, 3), nn.BatchNorm1d(3, momentum=0.3)

    def forward(self, x):
        x = self.last(torch.tanh(self.norm(self.first(x))))
        x = self.twice(torch.relu(self.twice(x)))
        return x if not self.training else (x, poptorch.identity_loss(x.pow(3), "mean"))


def make_options(replicas, accumulation=1, iterations=1):
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(iterations)
    options.replicationFactor(replicas).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    return options


def train_replicas(model, batches, replicas, accumulation, lr=0.1):
    """Eager PyTorch with one copy of the model for each replica: equal weights, statistics of their own."""
    copies = [copy.deepcopy(model) for _ in range(replicas)]
    outputs = []
    for batch in batches:
        for index, part in enumerate(batch.chunk(accumulation * replicas)):
            output, loss = copies[index % replicas](part)
            (loss / (accumulation * replicas)).backward()
            outputs.append(output.detach())
        for values in zip(*(each.parameters() for each in copies), strict=True):
            total = sum(value.grad for value in values)
            for value in values:
                value.data -= lr * total
                value.grad = None
    return copies, torch.cat(outputs)


@pytest.mark.parametrize(
    ("replicas", "accumulation", "iterations"),
    [(2, 1, 1), (2, 3, 1), (4, 2, 2), (2, 2, 1)],
)
def test_each_replica_keeps_its_own_statistics(replicas, accumulation, iterations):
    model = Normalised()
    size = 4 * replicas * accumulation
    batches = [torch.randn(size, 3) for _ in range(3 * iterations)]
    copies, expected = train_replicas(model, batches, replicas, accumulation)
    options = make_options(replicas, accumulation, iterations)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    calls = [torch.cat(batches[start : start + iterations]) for start in range(0, len(batches), iterations)]
    outputs = torch.cat([training(call)[0] for call in calls])
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-5)
    state, wanted = model.state_dict(), copies[0].state_dict()
    assert state["norm.num_batches_tracked"] == accumulation * 3 * iterations
    assert state["twice.num_batches_tracked"] == 2 * accumulation * 3 * iterations
    for name, value in wanted.items():
        torch.testing.assert_close(state[name].to(value.dtype), value, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(copies[0].norm.running_mean, copies[1].norm.running_mean, atol=1e-3)
    x = torch.randn(2, 3)
    evaluation = poptorch.inferenceModel(model.eval(), poptorch.Options().showCompilationProgressBar(False))
    torch.testing.assert_close(evaluation(x), copies[0].eval()(x), atol=1e-5, rtol=1e-5)


def test_the_statistics_that_replicas_see_in_training_are_their_own():
    class Shown(Normalised):
        def forward(self, x):
            _, loss = super().forward(x)
            return self.norm.running_mean + 0, loss

    model = Shown()
    batches = [torch.randn(8, 3) for _ in range(3)]
    training = poptorch.trainingModel(model, make_options(2), torch.optim.SGD(model.parameters(), lr=0.1))
    copies, _ = train_replicas(copy.deepcopy(model), batches, 2, 1)
    shown = [training(batch)[0] for batch in batches][-1].chunk(2)
    for found, each in zip(shown, copies, strict=True):
        torch.testing.assert_close(found, each.norm.running_mean, atol=1e-5, rtol=1e-5)


def test_one_warning_says_so_and_none_where_it_was_asked_for(caplog):
    x = torch.randn(8, 3)
    with caplog.at_level(logging.WARNING, logger="poptorch::python"):
        training = poptorch.trainingModel(Normalised(), make_options(2))
        for _ in range(3):
            training(x)
        assert [WORDS in record.message for record in caplog.records].count(True) == 1
        assert "norm.num_batches_tracked" in caplog.text
        assert "replica 0" in caplog.text
        caplog.clear()
        poptorch.trainingModel(Normalised(), make_options(2).broadcastBuffers(False))(x)
        poptorch.trainingModel(Normalised(), make_options(1))(x)
        assert WORDS not in caplog.text


def test_a_saved_model_goes_on_from_the_statistics_of_replica_0(tmp_path):
    model = Normalised()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, make_options(2), optimizer)
    training(torch.randn(8, 3))
    training.save(str(tmp_path / "saved.poptorch"))
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    loaded = poptorch.load(str(tmp_path / "saved.poptorch"))
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, kept[name])
    x = torch.randn(8, 3)
    assert torch.equal(loaded(x)[0], training(x)[0])
    assert torch.equal(loaded.model.norm.running_var, model.norm.running_var)


def test_a_pipeline_with_replicas_has_the_statistics_of_one_without_stages():
    def train(strategy):
        model = Normalised()
        poptorch.BeginBlock(model.first, "a", ipu_id=0)
        poptorch.BeginBlock(model.last, "b", ipu_id=1)
        options = make_options(2, accumulation=4)
        options.setExecutionStrategy(strategy)
        training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
        training(batch)
        return model.state_dict()

    batch = torch.randn(32, 3)
    staged = train(poptorch.PipelinedExecution("a", "b"))
    plain = train(poptorch.ShardedExecution("a", "b"))
    assert staged["norm.num_batches_tracked"] == 4
    assert all(torch.equal(staged[name], plain[name]) for name in plain)


class Counting(Normalised):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return super().forward(x)


class Copying(Normalised):
    """Writes to a statistic itself: that is not a batch norm's own update."""

    def forward(self, x):
        self.norm.running_mean.copy_(x.mean().expand(4))
        return super().forward(x)


@pytest.mark.parametrize("make", [Counting, Copying])
def test_other_buffers_that_forward_writes_need_a_copy_for_each_replica(make):
    words = r"PopTorch does not support broadcasting buffers\..*poptorch\.Options\(\)\.broadcastBuffers to False"
    with pytest.raises(poptorch.Error, match=words):
        poptorch.trainingModel(make(), make_options(2))(torch.randn(8, 3))
    model = make()
    poptorch.trainingModel(model, make_options(2).broadcastBuffers(False))(torch.randn(8, 3))
    assert model.norm.num_batches_tracked == 1


def test_named_buffers_go_to_the_device_and_each_replica_keeps_its_statistics():
    class Offset(Normalised):
        def __init__(self):
            super().__init__()
            self.register_buffer("offset", torch.zeros(1))

        def forward(self, x):
            _, loss = super().forward(x)
            return self.norm.running_mean + self.offset, loss

    model = Offset()
    options = make_options(2).updatableNamedBuffers(["offset"])
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))
    x = torch.randn(8, 3)
    for _ in range(20):
        first, second = training(x)[0].chunk(2)
    assert not torch.allclose(first, second, atol=1e-2)
    model.offset.fill_(100.0)
    training.copyNamedBuffersToDevice()
    later_first, later_second = training(x)[0].chunk(2)
    torch.testing.assert_close(later_second - later_first, second - first, atol=2e-2, rtol=0.0)
    assert later_first.min() > 90
