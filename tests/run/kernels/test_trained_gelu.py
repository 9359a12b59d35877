"""GELU that is written out, and its gradient, are one operator each; whatever is not quite that stays as it is."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.graph import EngineMode, OutputKind, RunOptions, Tap
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine import micro
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.fusion.trained_gelu import RULES
from openipu.run.rewrites.in_place.reused_memory import reuse_memory

aten = torch.ops.aten
INNER = math.sqrt(2 / math.pi)


def write_gelu(x, inner=INNER, cubic=0.044715):
    """As GPT-2 has it."""
    return 0.5 * x * (1.0 + torch.tanh(inner * (x + cubic * torch.pow(x, 3.0))))


class Net(nn.Module):
    def __init__(self, activation=write_gelu, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(layers))
        self.activation = activation

    def forward(self, rows, labels):
        for layer in self.layers:
            rows = self.activation(layer(rows))
        return functional.mse_loss(rows, labels)


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that functions are generated from."""
    found = []

    def generate(graph, *arguments):
        found.append(graph)
        return generate_function(graph, *arguments)

    monkeypatch.setattr(micro, "generate_function", generate)
    return found


def count(graphs, *targets):
    return sum(node.target in targets for node in graphs[-1].nodes)


def train(start_training, model, shape, **options):
    """Weights after three steps, here and in eager PyTorch, and what the taps saw."""
    torch.manual_seed(0)
    batches = options.get("gradient_accumulation", 1)
    inputs = tuple(3 * torch.randn(shape[0] * batches, *shape[1:]) for _ in range(2))
    mine, eager = copy.deepcopy(model), copy.deepcopy(model)
    run_options = RunOptions(training=True, engine=EngineMode.OPERATORS, **options)
    trained = start_training(mine, torch.optim.SGD(mine.parameters(), lr=0.1), inputs, run_options)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(3):
        results = trained.executable.run(list(inputs))
        for batch in zip(*(value.chunk(batches) for value in inputs), strict=True):
            (eager(*batch) / batches).backward()
        optimizer.step()
        optimizer.zero_grad()
    return trained.read_weights(), eager.state_dict(), results.taps


@pytest.mark.parametrize("shape", [(4, 64), (2, 9, 64), (8, 32, 64)])
@pytest.mark.parametrize("batches", [1, 4])
def test_training_computes_the_activation_and_its_gradient_in_one_call_each(start_training, graphs, shape, batches):
    found, expected, _ = train(start_training, Net(), shape, gradient_accumulation=batches)
    assert count(graphs, aten.tanh.default, aten.tanh_backward.default, aten.pow.Tensor_Scalar) == 0
    assert count(graphs, aten.gelu.default) == 2
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("layers", [1, 2])
def test_one_activation_may_follow_another_one(start_training, graphs, times, layers):
    def repeat(values):
        for _ in range(times):
            values = write_gelu(values)
        return values

    found, expected, _ = train(start_training, Net(repeat, layers), (4, 64))
    assert count(graphs, aten.gelu.default) == times * layers
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: write_gelu(x, inner=0.8),
        lambda x: write_gelu(x, cubic=0.05),
        lambda x: write_gelu(x) + torch.tanh(x),
        lambda x: write_gelu(x) * torch.sigmoid(0.5 * x),
    ],
)
def test_other_activations_have_their_own_gradients(start_training, graphs, other):
    found, expected, _ = train(start_training, Net(other), (4, 64))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_checked_arithmetic_is_that_which_the_model_writes(start_training, graphs):
    train(start_training, Net(), (4, 64), floating_point_exceptions=True)
    assert count(graphs, aten.gelu.default) == 0


def test_a_value_that_is_tapped_stays(start_training, graphs):
    found, expected, taps = train(start_training, Net(), (4, 64), taps=(Tap("bent", "tanh:0"),))
    assert count(graphs, aten.gelu.default) == 1  # of the other layer
    assert taps["bent"].abs().max() <= 1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def make_layer(change=lambda values: values, extra=lambda values: ()):
    """Forward and backward as autograd writes them, with names for all that lies between."""

    def layer(x, gradient):
        half, cube = x * 0.5, aten.pow.Tensor_Scalar(x, 3.0)
        bent = torch.tanh((x + cube * 0.044715) * INNER)
        shifted = bent + 1.0
        of_bent = aten.tanh_backward(gradient * half, bent) * INNER
        of_cube = (of_bent * 0.044715) * (aten.pow.Tensor_Scalar(x, 2.0) * 3.0)
        of_half = (gradient * shifted) * 0.5
        values = change({"bent": bent, "of_bent": of_bent, "of_cube": of_cube, "of_half": of_half, "x": x})
        of_input = values["of_bent"] + values["of_cube"] + values["of_half"]
        return half * shifted, of_input, *extra(values)

    return layer


def run_layer(build_program, layer, dtype=torch.float32):
    """How many operators there are for the whole, with results as they would be otherwise."""
    generator = torch.Generator().manual_seed(0)
    values = [2 * torch.randn((256, 100), generator=generator).to(dtype) for _ in range(2)]
    wanted = layer(*values)
    returns = [(OutputKind.OUTPUT, str(place)) for place in range(len(wanted))]
    program = build_program(layer, inputs=dict(zip(("x", "gradient"), values, strict=True)), returns=returns)
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, RULES)
    draft.graph.lint()
    found = [sum(node.target is target for node in draft.graph.nodes) for target in _OPERATORS]
    reuse_memory(draft)
    results = generate_function(draft.graph, draft.bound, "test")(*values)
    torch.testing.assert_close(tuple(results), tuple(wanted), rtol=1e-5, atol=1e-5)
    return found


_OPERATORS = (aten.gelu.default, aten.gelu_backward.default)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values,
        lambda values: {**values, "of_bent": values["of_half"], "of_half": values["of_bent"]},
        lambda values: {**values, "of_cube": values["of_half"], "of_half": values["of_cube"]},
    ],
)
def test_the_gradient_is_added_up_in_any_order(build_program, change):
    assert run_layer(build_program, make_layer(change)) == [1, 1]


@pytest.mark.parametrize("name", ["bent", "of_bent", "of_cube", "of_half"])
def test_a_value_that_somebody_else_reads_keeps_the_whole_as_it_is(build_program, name):
    assert run_layer(build_program, make_layer(extra=lambda values: (values[name].exp(),))) == [0, 0]


@pytest.mark.parametrize("name", ["of_bent", "of_cube", "of_half"])
@pytest.mark.parametrize("change", [torch.neg, lambda value: value * 1.001, lambda value: value + 1e-3])
def test_a_gradient_that_is_only_like_it_stays_as_it_is(build_program, name, change):
    layer = make_layer(lambda values: {**values, name: change(values[name])})
    assert run_layer(build_program, layer) == [0, 0]


def test_the_input_may_have_other_readers(build_program):
    assert run_layer(build_program, make_layer(extra=lambda values: (values["x"].exp(),))) == [1, 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_formats_stay_as_they_are_written(build_program, dtype):
    assert run_layer(build_program, make_layer(), dtype) == [0, 0]
