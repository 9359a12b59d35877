"""Gradients of weights by native code: what eager PyTorch computes, in place of the products that are large."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable, thresholds
from openipu.run.kernels.catalog import MULTIPLY_TRANSPOSED, WEIGHT_GRADIENTS
from openipu.run.rewrites.products import weight_gradients as native_products
from openipu.run.rewrites.products.weight_gradients import (
    add_columns,
    multiply_columns,
)

# Depth, height and width: parts of a tile, whole ones, several blocks in each direction.
SHAPES = [
    (1, 1, 1),
    (5, 7, 9),
    (3, 12, 32),
    (33, 100, 20),
    (600, 25, 300),
    (1100, 50, 67),
    (40, 1600, 70),
    (7, 13, 530),
]
WIDTH, BATCH = 256, 128  # products that are just large enough


@pytest.fixture
def kernel(use_kernels, monkeypatch):
    """The kernel, whatever the processor."""
    monkeypatch.setattr(native_products, "prefers_other_products", lambda: True)
    return use_kernels(WEIGHT_GRADIENTS)[WEIGHT_GRADIENTS][MULTIPLY_TRANSPOSED]


def make_matrices(depth, height, width):
    random = torch.Generator().manual_seed(depth)
    return torch.randn(depth, height, generator=random), torch.randn(depth, width, generator=random)


def compare(found, left, right, factor=1.0, total=0.0):
    exact = total + factor * (left.double().t() @ right.double())
    bound = factor * (left.double().abs().t() @ right.double().abs()) + abs(total)
    assert ((found.double() - exact).abs() <= 2.0**-20 * bound).all()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_columns_are_multiplied_by_columns(kernel, threads, shape):
    left, right = make_matrices(*shape)
    compare(multiply_columns(left, right, kernel), left, right)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_added_to_what_is_there(kernel, threads, shape):
    left, right = make_matrices(*shape)
    total = torch.full((shape[1], shape[2]), 3.0)
    assert add_columns(total, left, right, 0.25, kernel) is total
    compare(total, left, right, 0.25, 3.0)


@pytest.mark.slow
def test_rows_may_be_apart_and_other_layouts_are_left_to_pytorch(kernel):
    left, right = make_matrices(70, 90, 110)
    compare(
        multiply_columns(left[:, 5:80], right[::2].repeat_interleave(2, 0), kernel),
        left[:, 5:80],
        right[::2].repeat_interleave(2, 0),
    )
    wide = torch.zeros(70, 220)
    wide[:, :110] = right
    compare(multiply_columns(left, wide[:, :110], kernel), left, right)
    turned = left.t().contiguous().t()
    compare(multiply_columns(turned, right, kernel), left, right)
    total = torch.zeros(110, 90).t()
    compare(add_columns(total, turned, right, 1.0, kernel), left, right)


@pytest.mark.slow
def test_without_rows_a_product_is_zero_and_adds_nothing(kernel):
    left, right = torch.randn(0, 7), torch.randn(0, 9)
    assert torch.equal(multiply_columns(left, right, kernel), torch.zeros(7, 9))
    total = torch.full((7, 9), 3.0)
    assert torch.equal(add_columns(total, left, right, 0.25, kernel), torch.full((7, 9), 3.0))


@pytest.mark.slow
def test_what_is_not_a_number_stays_so(kernel):
    left, right = make_matrices(20, 30, 40)
    left[3, 4], right[5, 6] = torch.nan, torch.inf
    found, expected = multiply_columns(left, right, kernel), left.t() @ right
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.isinf(), expected.isinf())


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, rows):
        return nn.functional.mse_loss(self.second(torch.relu(self.first(rows))), rows)


def make_executable(accumulation=1, *, batching=True, deterministic=False, engine=EngineMode.OPERATORS):
    torch.manual_seed(0)
    net = Perceptron()
    rows = torch.randn(BATCH * accumulation, WIDTH)
    options = RunOptions(
        training=True,
        gradient_accumulation=accumulation,
        batching=batching,
        deterministic=deterministic,
        engine=engine,
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in net.named_parameters()})
    program = capture_program(net, (rows[:BATCH],), {}, training=True, optimizer=spec, name="perceptron")
    executable = Executable(program, options)
    executable.load_weights(dict(net.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return executable, rows


def train(executable, rows, steps=2):
    for _ in range(steps):
        executable.run([rows])
    return executable.copy_weights([name for name, _ in Perceptron().named_parameters()])


def train_eagerly(rows, accumulation, steps=2):
    torch.manual_seed(0)
    net = Perceptron()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        for part in rows.chunk(accumulation):
            (net(part) / accumulation).backward()
        optimizer.step()
    return dict(net.named_parameters())


def list_products(drafts):
    (draft,) = drafts
    return [node for node in draft.graph.nodes if node.target in (multiply_columns, add_columns)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accumulation", "batching", "written"),
    [(1, True, multiply_columns), (4, True, multiply_columns), (4, False, add_columns)],
    ids=["one micro-batch", "batched", "one after the other"],
)
def test_a_program_trains_as_eager_does(kernel, bound_drafts, accumulation, batching, written):
    executable, rows = make_executable(accumulation, batching=batching)
    found, expected = train(executable, rows), train_eagerly(rows, accumulation)
    (draft,) = bound_drafts
    assert sum(node.target is written for node in draft.graph.nodes) == 2
    for name, weight in found.items():
        torch.testing.assert_close(weight, expected[name].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_deterministic_program_does_not_use_it(kernel, bound_drafts):
    train(*make_executable(deterministic=True), steps=1)
    assert not list_products(bound_drafts)


@pytest.mark.slow
def test_small_products_stay_where_they_are(kernel, bound_drafts, monkeypatch):
    monkeypatch.setattr(thresholds, "WEIGHT_GRADIENT_WORK", BATCH * WIDTH * WIDTH + 1)
    train(*make_executable(), steps=1)
    assert not list_products(bound_drafts)


def test_without_the_kernel_libraries_multiply(bound_drafts, monkeypatch):
    monkeypatch.setattr(native_products, "prefers_other_products", lambda: True)
    train(*make_executable(), steps=1)
    assert not list_products(bound_drafts)
