"""Stochastic rounding, half partials and overflow of half results, in the graph of one micro-batch."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import InputKind, OutputKind, RunOptions
from openipu.numerics import FLOAT16, Overflow, Rounding, choose_chunk, multiply_with_half_partials, round_to_format
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import draft_graph
from openipu.run.drafts.random_numbers import random_bits
from openipu.run.rewrites.half.rounding import apply_number_options, round_half
from openipu.run.rewrites.simplify import simplify

STOCHASTIC = RunOptions(stochastic_rounding=True)
SATURATING = RunOptions(half_overflow=Overflow.SATURATE)


def draft(function, inputs, options, graph="micro", **capture):
    settings = {"training": False, "optimizer": None, "name": "model", **capture}
    program = capture_program(function, inputs, {}, **settings)
    drafted = draft_graph(getattr(program, graph), program.constants)
    simplify(drafted)
    apply_number_options(drafted, options, update=graph == "update")
    drafted.graph.lint()
    return drafted


def list_arguments(drafted, inputs, seed, parameters=None):
    """Values in the order of the graph's placeholders, but for bound ones."""
    entries = {entry.node: entry for entry in drafted.inputs}
    values = []
    for node in drafted.graph.find_nodes(op="placeholder"):
        if node.name in drafted.bound:
            continue
        entry = entries[node.name]
        if entry.kind is InputKind.SEED:
            values.append(torch.tensor(seed, dtype=torch.int32))
        else:
            values.append(inputs[entry.index] if entry.kind is InputKind.INPUT else parameters[entry.name])
    return values


def run(drafted, inputs, seed=0, parameters=None):
    function = generate_function(drafted.graph, drafted.bound, "test")
    with torch.no_grad():
        return function(*list_arguments(drafted, inputs, seed, parameters))


def random_half(*shape, scale=1.0, seed=0):
    return (scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).half()


class Layer(torch.nn.Module):
    """A layer of half weights with its loss."""

    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(random_half(size, size, scale=0.25))

    def forward(self, x):
        return F.mse_loss(x @ self.weight, x)


def draft_training(model, x, graph):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer = describe_optimizer(torch.optim.SGD(model.parameters(), lr=1.0), names)
    options = dataclasses.replace(STOCHASTIC, training=True)
    return draft(model, (x,), options, graph, training=True, optimizer=optimizer)


def test_nothing_changes_by_default():
    x = random_half(4, 4)
    drafted = draft(lambda x: torch.relu(x @ x) + x, (x,), RunOptions())
    assert not any(node.target in (round_half, random_bits) for node in drafted.graph.nodes)


def test_stochastic_results_lie_beside_the_exact_one_and_are_right_on_average():
    x, y = random_half(64, 32), random_half(32, 8, seed=1)
    drafted = draft(lambda x, y: x @ y, (x, y), STOCHASTIC)
    exact = x.double() @ y.double()
    runs = torch.stack([run(drafted, (x, y), seed)[0] for seed in range(200)]).double()
    step = 2.0 ** (torch.frexp(exact.abs()).exponent - 11)
    assert ((runs - exact).abs() <= step * 1.001 + 1e-5).all()
    assert (runs != runs[0]).any()
    error = (runs.mean(0) - exact) / step  # each run is off by less than a step
    assert abs(error.mean().item()) <= 5 * 0.5 / math.sqrt(runs.numel())


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    x = random_half(16, 16)
    drafted = draft(lambda x: torch.tanh(x @ x) * x, (x,), STOCHASTIC)
    first, again, other = run(drafted, (x,), 7), run(drafted, (x,), 7), run(drafted, (x,), 8)
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])


def test_elementwise_half_arithmetic_rounds_stochastically_too():
    x = torch.full((20_000,), 1.0, dtype=torch.half)
    drafted = draft(lambda x: x + 2.0**-13, (x,), STOCHASTIC)  # an eighth of the way to the next half number
    (found,) = run(drafted, (x,))
    share = (found > 1).double().mean().item()
    assert abs(share - 0.125) <= 5 * math.sqrt(0.125 * 0.875 / len(x))
    assert set(found.tolist()) == {1.0, 1.0 + 2.0**-10}


def test_results_that_need_no_rounding_stay_and_sample_nothing():
    x = random_half(8, 8)
    drafted = draft(lambda x: torch.relu(-x).t().reshape(4, 16).clone(), (x,), STOCHASTIC)
    assert not any(node.target is random_bits for node in drafted.graph.nodes)
    assert torch.equal(run(drafted, (x,))[0], torch.relu(-x).t().reshape(4, 16))


MODELS = {
    "norm and softmax": lambda x: F.layer_norm(x, (16,)).softmax(-1).sum(0),
    "losses": lambda x: F.cross_entropy(x, torch.arange(16)),
    "pooling": lambda x: F.avg_pool2d(x.view(1, 4, 8, 8), 2),
    "mixed formats": lambda x: (x.float() * 3).half() + x * x.float().mean(),
    "choices": lambda x: torch.where(x > 0, x * x, x.exp()),
    "batch norm": lambda x: F.batch_norm(x.view(4, 4, 16), None, None, training=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_rounding_by_chance_stays_close_to_rounding_to_nearest(name):
    x = random_half(16, 16)
    drafted = draft(MODELS[name], (x,), STOCHASTIC)
    assert any(node.target is round_half for node in drafted.graph.nodes)
    (found,) = run(drafted, (x,))
    expected = MODELS[name](x.float())
    torch.testing.assert_close(found.float(), expected.float(), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_saturating_changes_no_ordinary_result(name):
    x = random_half(16, 16)
    (found,) = run(draft(MODELS[name], (x,), SATURATING), (x,))
    (plain,) = run(draft(MODELS[name], (x,), RunOptions()), (x,))
    torch.testing.assert_close(found, plain, rtol=2e-3, atol=1e-3)


def test_gradients_round_stochastically():
    model, x = Layer(16), random_half(4, 16)
    drafted = draft_training(model, x, "micro")
    where = [entry.kind for entry in drafted.outputs].index(OutputKind.GRADIENT)
    values = {"weight": model.weight.detach()}
    first, second = (run(drafted, (x,), seed, values)[where] for seed in (1, 2))
    assert not torch.equal(first, second)
    model(x).backward()
    torch.testing.assert_close(first, model.weight.grad, rtol=2e-2, atol=1e-3)


def test_updates_of_half_weights_smaller_than_a_step_get_through_on_average():
    drafted = draft_training(Layer(64), random_half(4, 64), "update")
    gradient = torch.full((64, 64), 2.0**-14, dtype=torch.half)  # an eighth of the step below 1
    values = {entry.name: torch.tensor(0.0) for entry in drafted.inputs if entry.kind is InputKind.HYPER}
    values |= {name: torch.tensor(1.0) for name in values if name.startswith("lr")}
    by_kind = {InputKind.PARAMETER: torch.ones_like(gradient), InputKind.GRADIENT: gradient}
    by_node = {entry.node: by_kind.get(entry.kind, values.get(entry.name)) for entry in drafted.inputs}
    names = [node.name for node in drafted.graph.find_nodes(op="placeholder") if node.name not in drafted.bound]
    arguments = [torch.tensor(3, dtype=torch.int32) if by_node[name] is None else by_node[name] for name in names]
    (new,) = generate_function(drafted.graph, drafted.bound, "test")(*arguments)
    share = (new < 1).double().mean().item()
    assert abs(share - 0.125) <= 5 * math.sqrt(0.125 * 0.875 / new.numel())


@pytest.mark.parametrize(
    ("overflow", "expected"),
    [
        (Overflow.INFINITY, [torch.inf, -torch.inf, torch.inf, 65504.0]),
        (Overflow.SATURATE, [65504.0, -65504.0, torch.inf, 65504.0]),
        (Overflow.NAN, [torch.nan, torch.nan, torch.inf, 65504.0]),
    ],
)
@pytest.mark.parametrize("stochastic", [False, True])
def test_half_results_that_are_too_large(overflow, expected, stochastic):
    x = torch.tensor([300.0, -300.0, torch.inf, 1.0], dtype=torch.half)
    y = torch.tensor([300.0, 300.0, 300.0, 65504.0], dtype=torch.half)
    options = RunOptions(half_overflow=overflow, stochastic_rounding=stochastic)
    (found,) = run(draft(lambda x, y: x * y, (x, y), options), (x, y))
    torch.testing.assert_close(found.float(), torch.tensor(expected), equal_nan=True, rtol=0, atol=0)


def test_products_that_are_too_large_saturate():
    x = torch.full((2, 16), 100.0, dtype=torch.half)
    (found,) = run(draft(lambda x: x @ x.t(), (x,), SATURATING), (x,))
    assert found.tolist() == [[65504.0] * 2] * 2


def split(x, y):
    return run(draft(torch.matmul, (x, y), RunOptions(half_partials=True)), (x, y))[0]


@pytest.mark.parametrize("inputs", [16, 40, 200, 1000])
def test_half_partials_are_rounded_after_each_chunk(inputs):
    x, y = random_half(8, inputs), random_half(inputs, 8, seed=1)
    expected = multiply_with_half_partials(x, y, group=choose_chunk(inputs), overflow=Overflow.INFINITY)
    assert torch.equal(split(x, y), expected)
    if inputs > 64:
        assert not torch.equal(expected, (x.float() @ y.float()).half())


def test_half_partials_err_more_than_float_partials_and_less_than_the_exact_group_of_16():
    x, y = random_half(64, 2048), random_half(2048, 64, seed=1)
    exact = x.double() @ y.double()

    def measure(found):
        return (found.double() - exact).square().mean().sqrt().item()

    single = measure((x.float() @ y.float()).half())
    quick, slow = measure(split(x, y)), measure(multiply_with_half_partials(x, y))
    assert single < quick < slow < 10 * quick


def test_half_partials_of_layers_and_convolutions():
    images, kernels, bias = random_half(2, 80, 6, 6), random_half(4, 80, 3, 3, seed=1), random_half(4, seed=2)
    convolve = draft(lambda x, w, b: F.conv2d(x, w, b), (images, kernels, bias), RunOptions(half_partials=True))
    (found,) = run(convolve, (images, kernels, bias))
    expected = F.conv2d(images.float(), kernels.float(), bias.float())
    assert not torch.equal(found, expected.half())
    torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=0.1)
    x, w = random_half(4, 128), random_half(4, 128, seed=1)
    layer = draft(lambda x, w, b: F.linear(x, w, b), (x, w, bias), RunOptions(half_partials=True))
    product = multiply_with_half_partials(x, w.t(), group=choose_chunk(128))
    assert torch.equal(run(layer, (x, w, bias))[0], (product.float() + bias.float()).half())


def test_half_partials_behind_operators_that_are_computed_in_float32():
    images, kernels, weights = random_half(2, 3, 10, 10), random_half(80, 3, 3, 3, seed=1), random_half(4, 80, seed=2)

    def forward(x, k, w):
        return F.linear(F.relu(F.max_pool2d(F.conv2d(x, k), 8)).flatten(1), w)

    inputs = (images, kernels, weights)
    options = RunOptions(half_partials=True)
    pooled = F.relu(F.max_pool2d(run(draft(F.conv2d, inputs[:2], options), inputs[:2])[0].float(), 8)).flatten(1)
    expected = multiply_with_half_partials(pooled.half(), weights.t(), group=choose_chunk(80))
    assert torch.equal(run(draft(forward, inputs, options), inputs)[0], expected)
    assert not torch.equal(expected, F.linear(pooled, weights.float()).half())


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e5])
def test_a_rounding_with_given_bits_is_the_one_of_the_reference(overflow, scale):
    generator = torch.Generator().manual_seed(0)
    values = scale * torch.randn(1000, generator=generator)
    values[:4] = torch.tensor([0.0, -0.0, 1.0, 2.0])
    bits = torch.randint(-(1 << 31), 1 << 31, (1000,), dtype=torch.int32, generator=generator)
    for chosen in (values, torch.cat([values[4:], torch.tensor([torch.inf, -torch.inf, torch.nan, 7e4])])):
        found = round_half(chosen, bits, overflow.value)
        expected = round_to_format(chosen, FLOAT16, Rounding.STOCHASTIC, overflow, bits)
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(found.signbit()[~expected.isnan()], expected.signbit()[~expected.isnan()])
