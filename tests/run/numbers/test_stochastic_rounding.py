"""Stochastic rounding in one call: by native code, or by operators with the same bits."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

from openipu.capture import capture_program
from openipu.graph import RunOptions
from openipu.numerics import Overflow
from openipu.run import Executable
from openipu.run.drafts.random_numbers import random_bits, sample_bits
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine import pass_list
from openipu.run.kernels.catalog import ROUND, STOCHASTIC_ROUNDING
from openipu.run.rewrites.half.rounding import round_half
from openipu.run.rewrites.half.stochastic_rounding import (
    RULES,
    Rows,
    round_in_place,
    round_rows_into,
    round_stochastically,
    round_wide,
)
from openipu.run.rewrites.in_place.bound_rounding import bind_rounding

SEED, SEEDS = torch.tensor(7, dtype=torch.int32), torch.tensor([7, 8, 9], dtype=torch.int32)
SHAPES = [(), (1,), (6,), (5, 1), (1, 7), (3, 4, 5), (2, 70000), (300, 301)]
STRANGE = torch.tensor(
    [0.0, -0.0, 1e-8, -3e-6, 6e-5, 65504.0, 65519.0, -65521.0, 1e6, torch.inf, -torch.inf, torch.nan]
)


@pytest.fixture
def kernel(use_kernels):
    return use_kernels(STOCHASTIC_ROUNDING)[STOCHASTIC_ROUNDING][ROUND]


def make_values(shape, seed):
    batched = (*seed.shape, *shape)
    values = torch.randn(batched, generator=torch.Generator().manual_seed(0))
    return values * torch.logspace(-9, 3, max(values.numel(), 2))[: values.numel()].reshape(batched)


def round_by_operators(values, seed, shape, overflow):
    return round_half(values, sample_bits(seed, 3, shape), overflow.value)


def compare(found, expected):
    assert found.shape == expected.shape
    assert torch.equal(found.view(torch.int16), expected.view(torch.int16))  # zeros have signs, and NaNs are equal


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEEDS], ids=["one seed", "three seeds"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_code_gives_the_bits_of_the_operators(kernel, shape, seed):
    values = make_values(shape, seed)
    found = round_stochastically(values, seed, 3, shape, "infinity", kernel)
    compare(found, round_by_operators(values, seed, shape, Overflow.INFINITY))


@pytest.mark.slow
@pytest.mark.parametrize("overflow", list(Overflow))
def test_native_code_knows_what_is_too_large_infinite_or_no_number(kernel, overflow):
    found = round_stochastically(STRANGE, SEED, 3, STRANGE.shape, overflow.value, kernel)
    expected = round_by_operators(STRANGE, SEED, STRANGE.shape, overflow)
    assert torch.equal(found.isnan(), expected.isnan())
    compare(found.nan_to_num(0.5), expected.nan_to_num(0.5))


@pytest.mark.slow
def test_values_that_do_not_lie_side_by_side_are_rounded_where_they_are(kernel):
    values = make_values((40, 30), SEED).t()
    compare(
        round_stochastically(values, SEED, 3, (30, 40), "infinity", kernel),
        round_by_operators(values, SEED, (30, 40), Overflow.INFINITY),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEEDS], ids=["one seed", "three seeds"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_code_rounds_in_place_to_the_same_numbers(kernel, shape, seed):
    values = make_values(shape, seed)
    expected = round_by_operators(values, seed, shape, Overflow.INFINITY).float()
    before = values.clone()
    apart = round_wide(values, seed, 3, shape, "infinity", kernel)
    assert torch.equal(values, before)
    found = round_in_place(values, seed, 3, shape, "infinity", kernel)
    assert found.data_ptr() == values.data_ptr()
    for result in (apart, found):
        assert torch.equal(result.view(torch.int32), expected.view(torch.int32))


@pytest.mark.slow
def test_native_code_rounds_rows_by_their_places(kernel):
    values = make_values((50, 9), SEED)
    whole, places = round_by_operators(values, SEED, (50, 9), Overflow.INFINITY), torch.tensor([49, 7, 7, 0])
    for rows, chosen in ((Rows(11, 20, 9), slice(11, 31)), (Rows(0, 4, 9, places), places)):
        found = torch.empty((rows.count, 9), dtype=torch.half)
        round_rows_into(found, values[chosen].contiguous(), SEED, 3, rows, "infinity", kernel)
        compare(found, whole[chosen])


@pytest.mark.slow
def test_a_program_computes_the_same_with_the_kernel(use_kernels, monkeypatch):
    model, rows = nn.Linear(40, 24).half(), torch.rand(8, 40).half()

    def run():
        program = capture_program(model.eval(), (rows,), {}, training=False, optimizer=None, name="net")
        executable = Executable(program, RunOptions(stochastic_rounding=True, random_seed=5))
        executable.load_weights(dict(model.named_parameters()), {})
        return executable.run([rows]).outputs[0]

    before = run()
    bound = []
    monkeypatch.setattr(pass_list, "bind_rounding", lambda *given: (bind_rounding(*given), bound.append(given)))
    use_kernels(STOCHASTIC_ROUNDING)
    assert torch.equal(run(), before)
    assert len(bound) == 1


def test_without_the_kernel_the_operators_round():
    values = make_values((3, 5), SEED)
    compare(
        round_stochastically(values, SEED, 3, (3, 5), "saturate"),
        round_by_operators(values, SEED, (3, 5), Overflow.SATURATE),
    )


def test_bits_that_somebody_else_reads_are_sampled_apart():
    graph = fx.Graph()
    values, seed = graph.placeholder("values"), graph.placeholder("seed")
    bits = graph.call_function(random_bits, (seed, 0, [4]))
    graph.output((graph.call_function(round_half, (values, bits, "infinity")), bits))
    apply_rules(graph, RULES)
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [random_bits, round_half]
