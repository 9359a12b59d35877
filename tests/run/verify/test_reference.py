"""The reference engine equals eager PyTorch, and uses the random numbers of the fast engine."""

import copy

import pytest
import torch

from models import BATCH, MODELS, OPTIMIZERS, WithLoss, make_data, make_model
from openipu.graph import EngineMode, Reduction, RunOptions

REFERENCE = EngineMode.REFERENCE
CALLS = 3


def train_eagerly(model, optimizer, x, labels, options):
    """One update for each device iteration, over all its micro-batches."""
    together = options.gradient_accumulation * options.replicas
    weight = 1 if options.reduction is Reduction.SUM else together
    for start in range(0, len(x), BATCH * together):
        optimizer.zero_grad()
        for place in range(start, start + BATCH * together, BATCH):
            _, loss = model(x[place : place + BATCH], labels[place : place + BATCH])
            (loss / weight).backward()
        optimizer.step()


def compare_training(start_training, name, optimizer, options):
    model = WithLoss(make_model(name)).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    eager = copy.deepcopy(model).double()
    x, labels = make_data(name, options.micro_batches)
    trained = start_training(model, OPTIMIZERS[optimizer](model.parameters()), [x, labels], options)
    assert trained.executable.engine_mode is REFERENCE
    eager_optimizer = OPTIMIZERS[optimizer](eager.parameters())
    wide = x.double() if x.is_floating_point() else x
    for _ in range(CALLS):
        trained.executable.run([x, labels])
        train_eagerly(eager, eager_optimizer, wide, labels, options)
    assert trained.executable.engine_mode is REFERENCE
    expected = eager.state_dict()
    for key, value in trained.read_weights().items():
        torch.testing.assert_close(value.double(), expected[key].double(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_equals_eager(start_training, name, optimizer):
    if optimizer == "Adam" and name in ("cnn", "transformer", "language model"):
        pytest.skip("Adam divides by gradients that are zero but for rounding: see SGD")
    compare_training(start_training, name, optimizer, RunOptions(training=True, engine=REFERENCE))


@pytest.mark.parametrize("reduction", [Reduction.MEAN, Reduction.SUM, Reduction.RUNNING_MEAN])
def test_accumulation_equals_eager(start_training, reduction):
    options = RunOptions(training=True, engine=REFERENCE, gradient_accumulation=3, reduction=reduction)
    compare_training(start_training, "perceptron", "Adam", options)


def test_replicas_and_iterations_equal_eager(start_training):
    options = RunOptions(training=True, engine=REFERENCE, gradient_accumulation=2, replicas=2, device_iterations=2)
    compare_training(start_training, "lstm", "momentum", options)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "half"])
@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_inference_equals_eager(start_inference, name, half):
    model = make_model(name, half).eval()
    x, _ = make_data(name, half=half)
    executable = start_inference(model, [x], RunOptions(engine=REFERENCE))
    (scores,) = executable.run([x]).outputs
    expected = copy.deepcopy(model).double()(x.double())
    tolerance = 2e-2 if half else 1e-5
    torch.testing.assert_close(scores.double(), expected.detach(), rtol=tolerance, atol=tolerance)


def test_dropout_has_the_masks_of_the_fast_engine(start_training):
    results = []
    for engine in (REFERENCE, EngineMode.OPERATORS):
        model = WithLoss(torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Flatten()))
        model.body.append(torch.nn.Linear(64, 4, bias=False))
        torch.nn.init.ones_(model.body[2].weight)
        x, labels = torch.arange(4.0 * 64).reshape(4, 64), torch.zeros(4, dtype=torch.int64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        options = RunOptions(training=True, engine=engine, random_seed=11)
        trained = start_training(model, optimizer, [x, labels], options)
        results.append([trained.executable.run([x, labels]).outputs[0] for _ in range(2)])
    for reference, fast in zip(*results, strict=True):
        torch.testing.assert_close(reference, fast, rtol=0, atol=0)
    assert not torch.equal(results[0][0], results[0][1])


def test_operands_are_dense(start_inference):
    """A slice, an expansion and a transposition reach kernels as memory without gaps."""

    class Slices(torch.nn.Module):
        def forward(self, x):
            return torch.layer_norm(x[:, ::2].transpose(1, 2), [3]) * x[:, :1, :1].expand(-1, 4, 3)

    x = torch.randn(2, 6, 4)
    executable = start_inference(Slices(), [x], RunOptions(engine=REFERENCE))
    torch.testing.assert_close(executable.run([x]).outputs[0], Slices()(x))


def test_results_are_memory_of_their_own(start_inference):
    model = torch.nn.Identity()
    x = torch.randn(3, 2)
    executable = start_inference(model, [x], RunOptions(engine=REFERENCE))
    (result,) = executable.run([x]).outputs
    result.zero_()
    assert bool(x.ne(0).any())
