"""Dropout by native code: the bits of the operators, and no mask in memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.numerics import Overflow
from openipu.run import Executable
from openipu.run.drafts.random_numbers import random_bits, sample_bits
from openipu.run.kernels.catalog import DROP, DROPOUT
from openipu.run.rewrites.half.rounding import round_values
from openipu.run.rewrites.random.dropout import (
    UNROUNDED,
    find_masks,
    keep_elements,
    keep_in_place,
)

SEED, SEEDS = torch.tensor(7, dtype=torch.int32), torch.tensor([7, 8, 9], dtype=torch.int32)
SHAPES = [(), (1,), (6,), (5, 1), (1, 7), (3, 4, 5), (2, 70000), (300, 301)]
STRANGE = torch.tensor([0.0, -0.0, 1e-42, -3e38, torch.inf, -torch.inf, torch.nan]).repeat(50)

WEIGHTS = ["first.weight", "first.bias", "second.weight", "second.bias"]


@pytest.fixture
def kernel(use_kernels):
    return use_kernels(DROPOUT)[DROPOUT][DROP]


def keep_by_operators(values, seed, shape, probability):
    quantile = round(probability * (1 << 32)) - (1 << 31)
    mask = (sample_bits(seed, 3, shape) < quantile).float() / probability
    return values * mask, quantile, mask.max().item()


def compare(found, expected):
    assert found.shape == expected.shape
    assert torch.equal(found.isnan(), expected.isnan())
    whole = [value.nan_to_num(0.5).view(torch.int32) for value in (found, expected)]  # zeros have signs
    assert torch.equal(*whole)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEEDS], ids=["one seed", "three seeds"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_code_keeps_the_elements_that_the_operators_keep(kernel, shape, seed):
    values = torch.randn((*seed.shape, *shape), generator=torch.Generator().manual_seed(0))
    for probability in (0.9, 0.5, 0.003):
        expected, quantile, _ = keep_by_operators(values, seed, shape, probability)
        factor = (torch.ones(()) / probability).item()
        before = values.clone()
        compare(keep_elements(values, seed, 3, shape, quantile, factor, UNROUNDED, kernel), expected)
        assert torch.equal(values, before)
        found = keep_in_place(before, seed, 3, shape, quantile, factor, UNROUNDED, kernel)
        assert found.data_ptr() == before.data_ptr()
        compare(found, expected)


@pytest.mark.slow
def test_what_is_infinite_or_no_number_is_multiplied_by_zero_as_well(kernel):
    expected, quantile, factor = keep_by_operators(STRANGE, SEED, STRANGE.shape, 0.5)
    compare(keep_elements(STRANGE, SEED, 3, STRANGE.shape, quantile, factor, UNROUNDED, kernel), expected)


@pytest.mark.slow
def test_values_that_do_not_lie_side_by_side_are_kept_where_they_are(kernel):
    values = torch.randn(40, 30).t()
    expected, quantile, factor = keep_by_operators(values, SEED, (30, 40), 0.7)
    compare(keep_elements(values, SEED, 3, (30, 40), quantile, factor, UNROUNDED, kernel), expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEEDS], ids=["one seed", "three seeds"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_factors_of_a_half_mask_are_rounded_as_the_operators_round_them(kernel, shape, seed):
    values = torch.randn((*seed.shape, *shape), generator=torch.Generator().manual_seed(0))
    for probability in (0.9, 0.5, 0.003):
        quantile = round(probability * (1 << 32)) - (1 << 31)
        mask = (sample_bits(seed, 3, shape) < quantile).float() / probability
        mask = round_values(Overflow.INFINITY, mask, sample_bits(seed, 8, shape)).float()
        factor = (torch.ones(()) / probability).item()
        compare(keep_elements(values, seed, 3, shape, quantile, factor, 8, kernel), values * mask)
        compare(keep_in_place(values.clone(), seed, 3, shape, quantile, factor, 8, kernel), values * mask)
    if mask.numel() > 1000:
        assert mask.unique().numel() == 3, "nothing, and the numbers of half on both sides of 1 / 0.003"


class Net(nn.Module):
    """Two dropouts, one of them on attention-like scores; the loss is the result."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(24, 160), nn.Linear(160, 8)

    def forward(self, rows):
        hidden = nn.functional.dropout(self.first(rows).relu(), 0.1, training=True)
        scores = nn.functional.dropout(torch.softmax(hidden @ hidden.mT, -1), 0.3, training=True)
        return nn.functional.mse_loss(self.second(scores @ hidden), rows[:, :8])


def make_executable(batching, accumulation=3, engine=EngineMode.OPERATORS, half=False):
    torch.manual_seed(0)
    net, rows = Net(), torch.rand(16 * accumulation, 24)
    if half:
        net, rows = net.half(), rows.half()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    spec = describe_optimizer(optimizer, names)
    program = capture_program(net, (rows[:16],), {}, training=True, optimizer=spec, name="net")
    options = RunOptions(
        training=True,
        gradient_accumulation=accumulation,
        random_seed=5,
        batching=batching,
        engine=engine,
        stochastic_rounding=half,
    )
    executable = Executable(program, options)
    executable.load_weights(dict(net.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return executable, rows


def train(executable, rows, steps=3):
    losses = [executable.run([rows]).outputs[0] for _ in range(steps)]
    return [*losses, *executable.copy_weights(WEIGHTS).values()]


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True], ids=["float32", "half"])
@pytest.mark.parametrize("batching", [False, True], ids=["one after the other", "batched"])
def test_a_program_trains_to_the_same_bits(kernel, use_kernels, batching, half):
    native = train(*make_executable(batching, half=half))
    use_kernels()
    for found, expected in zip(native, train(*make_executable(batching, half=half)), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True], ids=["float32", "half"])
def test_no_mask_is_written_down(kernel, bound_drafts, half):
    train(*make_executable(batching=True, half=half), steps=1)
    (draft,) = bound_drafts
    targets = [node.target for node in draft.graph.nodes]
    assert random_bits not in targets
    # Two dropouts, forward and backward: each in memory of its own, or in that of its operand.
    assert sum(target in (keep_elements, keep_in_place) for target in targets) == 4
    assert not find_masks(draft.graph)


def test_without_the_kernel_operators_drop():
    executable, rows = make_executable(batching=True)
    assert all(torch.isfinite(value).all() for value in train(executable, rows, steps=1))
