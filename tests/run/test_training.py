"""Training equals eager PyTorch, whatever the numbers of device iterations, accumulation steps and replicas."""

import copy
import itertools

import pytest
import torch
from torch import nn

from openipu.errors import InputError
from openipu.graph import OutputMode, Reduction, RunOptions

MICRO = 3
STEPS = 20
GRID = list(itertools.product((1, 2), (1, 3), (1, 2)))  # D, G, R


class WithLoss(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x, labels):
        scores = self.layers(x)
        return scores, nn.functional.cross_entropy(scores, labels)


def make_mlp():
    return WithLoss(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)), (8,)


def make_cnn():
    return WithLoss(
        nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 4)
    ), (1, 8, 8)


def make_data(shape, count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *shape, generator=generator), torch.randint(0, 4, (count,), generator=generator)


def train_eagerly(model, optimizer, x, labels, options, max_grad_norm=None):
    """The reference: one update for each device iteration, over all its micro-batches."""
    losses = []
    together = options.gradient_accumulation * options.replicas
    parts = list(zip(x.split(MICRO), labels.split(MICRO), strict=True))
    for iteration in range(options.device_iterations):
        optimizer.zero_grad()
        for part in parts[iteration * together : (iteration + 1) * together]:
            _, loss = model(*part)
            (loss / together if options.reduction is Reduction.MEAN else loss).backward()
            losses.append(loss.detach())
        if max_grad_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
    return torch.stack(losses)


def compare(start_training, make_model, make_optimizer, options, max_grad_norm=None):
    torch.manual_seed(1)
    model, shape = make_model()
    reference = copy.deepcopy(model)
    optimizer, reference_optimizer = make_optimizer(model.parameters()), make_optimizer(reference.parameters())
    count = MICRO * options.micro_batches
    trained = start_training(model, optimizer, make_data(shape, count, 0), options, max_grad_norm)
    for step in range(STEPS):
        x, labels = make_data(shape, count, step)
        _, losses = trained.executable.run([x, labels]).outputs
        expected = train_eagerly(reference, reference_optimizer, x, labels, options, max_grad_norm)
        torch.testing.assert_close(losses.reshape(-1), expected, atol=1e-5, rtol=1e-5)
    return trained, reference, reference_optimizer


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


@pytest.mark.parametrize(("iterations", "accumulation", "replicas"), GRID)
@pytest.mark.parametrize("make_optimizer", [sgd, adam])
def test_an_mlp_trains_as_in_eager_pytorch(start_training, make_optimizer, iterations, accumulation, replicas):
    options = RunOptions(
        training=True, device_iterations=iterations, gradient_accumulation=accumulation, replicas=replicas
    )
    trained, reference, _ = compare(start_training, make_mlp, make_optimizer, options)
    for name, value in trained.read_weights().items():
        torch.testing.assert_close(value, reference.state_dict()[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("iterations", "accumulation", "replicas"), GRID)
def test_a_cnn_with_batch_norm_trains_as_in_eager_pytorch(start_training, iterations, accumulation, replicas):
    options = RunOptions(
        training=True,
        device_iterations=iterations,
        gradient_accumulation=accumulation,
        replicas=replicas,
        broadcast_buffers=False,
    )
    trained, reference, _ = compare(start_training, make_cnn, sgd, options)
    weights = trained.read_weights()
    expected = reference.state_dict()
    buffers = {name for name, _ in reference.named_buffers()}
    for name, value in weights.items():
        # With replicas, the reference's running statistics see every micro-batch and a replica's only its own.
        if replicas == 1 or name not in buffers:
            torch.testing.assert_close(value, expected[name].to(value.dtype), atol=1e-5, rtol=1e-5)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd dampened": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5),
    "sgd maximize": lambda p: torch.optim.SGD(p, lr=0.001, maximize=True),
    "adam decayed": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("max_grad_norm", [None, 0.1])
def test_every_optimizer_trains_as_in_eager_pytorch(start_training, name, max_grad_norm):
    options = RunOptions(training=True)
    trained, reference, _ = compare(start_training, make_mlp, OPTIMIZERS[name], options, max_grad_norm)
    for key, value in trained.read_weights().items():
        torch.testing.assert_close(value, reference.state_dict()[key], atol=1e-5, rtol=1e-5)


def test_gradients_are_summed_where_asked(start_training):
    options = RunOptions(training=True, gradient_accumulation=4, reduction=Reduction.SUM)
    compare(start_training, make_mlp, OPTIMIZERS["sgd"], options)


def test_clipping_sees_the_accumulated_gradient(start_training):
    options = RunOptions(training=True, gradient_accumulation=2, replicas=2)
    compare(start_training, make_mlp, adam, options, max_grad_norm=0.1)


def test_groups_have_hyper_parameters_of_their_own(start_training):
    def two_groups(parameters):
        first, *rest = parameters
        return torch.optim.SGD([{"params": [first], "lr": 0.0}, {"params": rest, "lr": 0.1}])

    trained, reference, _ = compare(start_training, make_mlp, two_groups, RunOptions(training=True))
    name = next(iter(dict(reference.named_parameters())))
    torch.manual_seed(1)
    untouched, _ = make_mlp()
    assert torch.equal(trained.read_weights()[name], untouched.state_dict()[name])


def test_state_can_be_read_and_loaded(start_training):
    options = RunOptions(training=True)
    trained, _, reference_optimizer = compare(start_training, make_mlp, adam, options)
    state = trained.executable.state
    names = [name for name, _ in trained.model.named_parameters()]
    for name, entry in zip(names, reference_optimizer.state.values(), strict=True):
        assert state[f"step:{name}"].item() == STEPS
        torch.testing.assert_close(state[f"exp_avg:{name}"], entry["exp_avg"], atol=1e-6, rtol=1e-4)
    state[f"step:{names[0]}"].fill_(99)  # a copy: the device does not see it
    assert trained.executable.state[f"step:{names[0]}"].item() == STEPS


def test_parameters_may_stand_at_different_steps(start_training):
    torch.manual_seed(0)
    model, shape = make_mlp()
    reference = copy.deepcopy(model)
    optimizer, reference_optimizer = adam(model.parameters()), adam(reference.parameters())
    x, labels = make_data(shape, MICRO, 0)
    trained = start_training(model, optimizer, (x, labels), RunOptions(training=True))
    trained.executable.run([x, labels])
    train_eagerly(reference, reference_optimizer, x, labels, RunOptions(training=True))
    first = next(iter(reference.parameters()))
    reference_optimizer.state[first]["step"].fill_(50)
    trained.executable.load_state({"step:layers.0.weight": torch.tensor(50.0)})
    trained.executable.run([x, labels])
    train_eagerly(reference, reference_optimizer, x, labels, RunOptions(training=True))
    assert trained.executable.state["step:layers.0.weight"].item() == 51
    assert trained.executable.state["step:layers.0.bias"].item() == 2
    for name, value in trained.read_weights().items():
        torch.testing.assert_close(value, reference.state_dict()[name], atol=1e-6, rtol=1e-5)


def test_unknown_or_misshapen_state_is_refused(start_training):
    model, shape = make_mlp()
    trained = start_training(model, adam(model.parameters()), make_data(shape, MICRO, 0), RunOptions(training=True))
    with pytest.raises(InputError, match=r"'speed:layers\.0\.weight'"):
        trained.executable.load_state({"speed:layers.0.weight": torch.zeros(1)})
    with pytest.raises(InputError, match=r"\(1,\).*\(32, 8\)"):
        trained.executable.load_state({"exp_avg:layers.0.weight": torch.zeros(1)})


def test_an_output_that_is_a_weight_shows_its_value_before_the_update(start_training):
    class ReturnsWeight(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x, y):
            return self.weight, nn.functional.mse_loss(self.weight * x, y)

    model = ReturnsWeight()
    leaves = (torch.ones(2), torch.zeros(2))
    options = RunOptions(training=True, device_iterations=2, output_mode=OutputMode.ALL)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.25), leaves, options)
    weights, _ = trained.executable.run(leaves).outputs
    assert weights.tolist() == [2.0, 1.0]  # gradient 2 w = 4, times 0.25


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_weight_that_forward_writes_to_is_updated_from_its_new_value(start_training, accumulation):
    class Halving(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([4.0]))

        def forward(self, x, y):
            with torch.no_grad():
                self.weight.mul_(0.5)
            return nn.functional.mse_loss(self.weight * x, y)

    model, reference = Halving(), Halving()
    leaves = (torch.ones(accumulation), torch.zeros(accumulation))
    options = RunOptions(training=True, gradient_accumulation=accumulation)
    trained = start_training(model, torch.optim.SGD(model.parameters(), lr=0.25), leaves, options)
    trained.executable.run(leaves)
    for _ in range(accumulation):
        (reference(torch.ones(1), torch.zeros(1)) / accumulation).backward()
    torch.optim.SGD(reference.parameters(), lr=0.25).step()
    assert trained.read_weights()["weight"].item() == reference.weight.item()
