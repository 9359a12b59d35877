"""Training equals eager PyTorch: losses and weights, for several models, optimizers and loops."""

import copy

import pytest
import torch
from torch import nn

import poptorch


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


class WithLoss(nn.Module):
    """A classifier that computes its own loss."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, target):
        logits = self.body(x)
        return logits, nn.functional.cross_entropy(logits, target)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


class SmallBert(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        config = BertConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=3,
        )
        self.bert = BertForSequenceClassification(config)

    def forward(self, x):
        return self.bert(input_ids=x).logits


def make_mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)), lambda count: torch.randn(count, 6)


def make_cnn():
    body = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 3)
    )
    return body, lambda count: torch.randn(count, 1, 8, 8)


def make_lstm():
    return Recurrent(), lambda count: torch.randn(count, 4, 5)


def make_bert():
    return SmallBert(), lambda count: torch.randint(0, 50, (count, 12))


def train_eagerly(model, optimizer, batches, accumulation=1, replicas=1, reduction="mean"):
    """One list of micro-batch losses for each batch of one weight update."""
    losses = []
    for x, target in batches:
        optimizer.zero_grad()
        parts = accumulation * replicas
        for micro_x, micro_target in zip(x.chunk(parts), target.chunk(parts), strict=True):
            _, loss = model(micro_x, micro_target)
            (loss / parts if reduction == "mean" else loss).backward()
            losses.append(loss.item())
        optimizer.step()
    return torch.tensor(losses)


@pytest.mark.parametrize(
    ("make", "optimizer"),
    [
        (make_mlp, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
        (make_mlp, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
        (make_mlp, lambda p: poptorch.optim.Adam(p, lr=0.01)),
        (make_cnn, lambda p: poptorch.optim.SGD(p, lr=0.05)),
        (make_cnn, lambda p: torch.optim.Adam(p, lr=0.003, weight_decay=0.01)),
        (make_lstm, lambda p: torch.optim.AdamW(p, lr=0.01)),
        (make_bert, lambda p: poptorch.optim.AdamW(p, lr=1e-3, loss_scaling=128.0)),
    ],
)
def test_twenty_steps_have_the_losses_and_weights_of_eager(make, optimizer):
    torch.manual_seed(1)
    body, sample = make()
    model = WithLoss(body)
    reference = copy.deepcopy(model)
    batches = [(sample(4), torch.randint(0, 3, (4,))) for _ in range(20)]
    expected = train_eagerly(reference, optimizer(reference.parameters()), batches)
    training = poptorch.trainingModel(model, quiet(), optimizer(model.parameters()))
    losses = torch.stack([training(x, target)[1] for x, target in batches])
    assert torch.allclose(losses, expected, atol=1e-5, rtol=0)
    for (name, ours), theirs in zip(model.state_dict().items(), reference.state_dict().values(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5), name


@pytest.mark.parametrize(("iterations", "accumulation", "replicas"), [(1, 1, 2), (5, 1, 1), (2, 2, 1), (2, 3, 2)])
@pytest.mark.parametrize("make", [make_mlp, make_cnn, make_lstm, make_bert])
def test_twenty_updates_have_the_losses_of_eager_however_they_are_divided(make, iterations, accumulation, replicas):
    torch.manual_seed(2)
    body, sample = make()
    model = WithLoss(body)
    reference = copy.deepcopy(model)
    size = 2 * accumulation * replicas  # samples of one update
    batches = [(sample(size), torch.randint(0, 3, (size,))) for _ in range(20)]
    expected = train_eagerly(
        reference, torch.optim.SGD(reference.parameters(), lr=0.05), batches, accumulation, replicas
    )
    options = quiet().deviceIterations(iterations).replicationFactor(replicas).broadcastBuffers(False)
    options.Training.gradientAccumulation(accumulation)
    options.outputMode(poptorch.OutputMode.All)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.05))
    losses = []
    for start in range(0, 20, iterations):
        parts = batches[start : start + iterations]
        losses.append(training(*(torch.cat(column) for column in zip(*parts, strict=True)))[1].flatten())
    assert torch.allclose(torch.cat(losses), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_loops_of_one_call_equal_eager_accumulation(iterations, accumulation, replicas, reduction):
    torch.manual_seed(2)
    body, sample = make_mlp()
    model = WithLoss(body)
    reference = copy.deepcopy(model)
    options = quiet().deviceIterations(iterations).replicationFactor(replicas).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    kind = poptorch.ReductionType.Mean if reduction == "mean" else poptorch.ReductionType.Sum
    options.Training.accumulationAndReplicationReductionType(kind)
    update = 2 * accumulation * replicas
    training = poptorch.trainingModel(model, options, torch.optim.Adam(model.parameters(), lr=0.01))
    eager = torch.optim.Adam(reference.parameters(), lr=0.01)
    for _ in range(3):
        x, target = sample(update * iterations), torch.randint(0, 3, (update * iterations,))
        _, losses = training(x, target)
        batches = zip(x.split(update), target.split(update), strict=True)
        expected = train_eagerly(reference, eager, batches, accumulation, replicas, reduction)
        assert torch.allclose(losses.reshape(-1), expected, atol=1e-5, rtol=0)
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_gradients_are_clipped_to_their_global_norm():
    torch.manual_seed(3)
    body, sample = make_mlp()
    model = WithLoss(body)
    reference = copy.deepcopy(model)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.5, max_grad_norm=0.05)
    training = poptorch.trainingModel(model, quiet(), optimizer)
    eager = torch.optim.SGD(reference.parameters(), lr=0.5)
    for _ in range(5):
        x, target = sample(4), torch.randint(0, 3, (4,))
        training(x, target)
        eager.zero_grad()
        reference(x, target)[1].backward()
        assert torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.05) > 0.05
        eager.step()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_new_learning_rate_acts_from_set_optimizer_on_and_compiles_nothing():
    model = WithLoss(nn.Linear(2, 3))
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.0)
    training = poptorch.trainingModel(model, quiet(), optimizer)
    compilations = []
    handle = poptorch.registerPostCompileHook(lambda: compilations.append(1))
    x, target = torch.ones(2, 2), torch.tensor([0, 1])
    before = model.body.weight.detach().clone()
    training(x, target)
    optimizer.param_groups[0]["lr"] = 1.0
    training(x, target)
    assert torch.equal(model.body.weight, before)
    training.setOptimizer(optimizer)
    training(x, target)
    assert not torch.equal(model.body.weight, before)
    assert compilations == [1]
    handle.remove()


def test_an_optimizer_of_another_structure_needs_a_new_compilation():
    model = WithLoss(nn.Linear(2, 3))
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.1))
    x, target = torch.ones(2, 2), torch.tensor([0, 1])
    training(x, target)
    other = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(poptorch.Error, match=r"destroy\(\)"):
        training.setOptimizer(other)
    training.destroy()
    training.setOptimizer(other)
    training(x, target)


def test_parameters_that_need_no_gradient_stay_and_those_of_no_group_use_the_defaults():
    model = WithLoss(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3)))
    model.body[0].requires_grad_(False)
    reference = copy.deepcopy(model)
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.body[1].parameters(), lr=0.1))
    x, target = torch.randn(4, 2), torch.randint(0, 3, (4,))
    training(x, target)
    train_eagerly(reference, torch.optim.SGD(reference.body[1:].parameters(), lr=0.1), [(x, target)])
    assert torch.equal(model.body[0].weight, reference.body[0].weight)
    for index in (1, 2):
        assert torch.allclose(model.body[index].weight, reference.body[index].weight, atol=1e-6)


def test_the_default_optimizer_is_sgd():
    model = Sum()
    training = poptorch.trainingModel(model, quiet())
    training(torch.full((1,), 3.0))
    assert torch.allclose(model.weight.detach(), torch.tensor([1 - 0.01 * 3.0]))  # lr 0.01, gradient 3


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return poptorch.identity_loss(self.weight * x, "sum")


def test_a_model_without_a_loss_is_refused():
    model = nn.Linear(2, 2)
    with pytest.raises(poptorch.Error, match="Couldn't find a loss in graph!"):
        poptorch.trainingModel(model, quiet())(torch.ones(1, 2))
    assert torch.isfinite(model(torch.ones(1, 2))).all()


def test_two_losses_are_refused():
    class Two(Sum):
        def forward(self, x):
            y = self.weight * x
            return poptorch.identity_loss(y, "sum"), poptorch.identity_loss(y * 2, "sum")

    with pytest.raises(poptorch.Error, match="Multiple independent losses found in graph"):
        poptorch.trainingModel(Two(), quiet())(torch.ones(1))


def test_errors_of_the_users_forward_pass_unchanged_and_leave_the_model_whole():
    class Broken(Sum):
        def forward(self, x):
            if poptorch.isRunningOnIpu():
                raise KeyError("mine")
            return super().forward(x)

    model = Broken()
    with pytest.raises(KeyError, match="mine"):
        poptorch.trainingModel(model, quiet())(torch.ones(1))
    assert not poptorch.isRunningOnIpu()
    assert model(torch.ones(1)) == 1


def test_reading_a_value_in_forward_names_the_line():
    with pytest.raises(poptorch.Error, match=r"test_training\.py"):
        poptorch.inferenceModel(lambda x: x * x.sum().item(), quiet())(torch.ones(2))


def test_dropout_in_training_follows_the_seed():
    class Noisy(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, 0.5, training=True)

    def run():
        model = poptorch.inferenceModel(Noisy(), quiet().randomSeed(5))
        return [model(torch.ones(64)) for _ in range(2)]

    first, second = run(), run()
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], first[1])


def test_a_hugging_face_model_trains_as_it_is():
    from transformers.modeling_outputs import SequenceClassifierOutput

    model = SmallBert().bert
    reference = copy.deepcopy(model)
    training = poptorch.trainingModel(model, quiet(), poptorch.optim.AdamW(model.parameters(), lr=1e-3))
    batch = {"input_ids": torch.randint(0, 50, (2, 8)), "labels": torch.randint(0, 3, (2,))}
    output = training(**batch)
    assert isinstance(output, SequenceClassifierOutput)
    assert torch.allclose(output.loss, reference(**batch).loss, atol=1e-5)


def test_half_weights_train_in_half():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2).half()

        def forward(self, x, target):
            return nn.functional.cross_entropy(self.layer(x).float(), target)

    model = Half()
    training = poptorch.trainingModel(model, quiet(), torch.optim.SGD(model.parameters(), lr=0.5))
    x, target = torch.randn(8, 4).half(), torch.randint(0, 2, (8,))
    losses = [training(x, target).item() for _ in range(5)]
    assert losses[-1] < losses[0]
    assert model.layer.weight.dtype is torch.float16
