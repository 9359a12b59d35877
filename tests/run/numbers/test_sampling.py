"""Random bits are a function of the seed, the sample and the place, and look like chance."""

import math

import pytest
import torch
from torch import fx, nn

from openipu.capture import capture_program
from openipu.graph import InputKind, RunOptions
from openipu.run import Executable
from openipu.run.drafts.draft import draft_graph
from openipu.run.drafts.random_numbers import compute_bits, random_bits, sample_bits, sample_from_seed

SEED = torch.tensor(123456789, dtype=torch.int32)
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 65), (64, 1024)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_quick_form_gives_the_bits_of_the_plain_one(shape):
    assert sample_bits(SEED, 3, shape).shape == shape
    assert torch.equal(sample_bits(SEED, 3, shape), compute_bits(SEED, 3, shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_vector_of_seeds_gives_what_each_seed_gives(shape):
    seeds = torch.tensor([5, -7, 2**31 - 1], dtype=torch.int32)
    for one, bits in zip(seeds, sample_bits(seeds, 1, shape), strict=True):
        assert torch.equal(bits, sample_bits(one, 1, shape))
    assert torch.equal(sample_bits(seeds, 1, shape), compute_bits(seeds, 1, shape))


def test_every_seed_sample_and_place_has_bits_of_its_own():
    one = sample_bits(SEED, 0, (200, 100))
    assert one.unique().numel() > 0.999 * one.numel()
    for other in (sample_bits(SEED, 1, (200, 100)), sample_bits(SEED + 1, 0, (200, 100))):
        assert (one == other).sum() < 5


def test_bits_are_even_and_uncorrelated():
    bits = sample_bits(SEED, 0, (512, 512)).to(torch.float64) / 2**32 + 0.5
    count = bits.numel()
    counts = torch.histc(bits, 256, 0, 1)
    expected = count / 256
    chi_squared = ((counts - expected) ** 2 / expected).sum().item()
    assert abs(chi_squared - 255) < 5 * math.sqrt(2 * 255)
    kept = (bits < 0.1).to(torch.float64) - 0.1
    limit = 5 * 0.09 / math.sqrt(count)  # five standard deviations of a mean of products
    for first, second in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1]), (kept[:, 2:], kept[:, :-2])):
        assert abs((first * second).mean().item()) < limit
    for dimension in (0, 1):
        assert kept.sum(dimension).var().item() == pytest.approx(512 * 0.09, rel=5 * math.sqrt(2 / 512))


def draft_of(function, *inputs):
    class Net(nn.Module):
        def forward(self, *values):
            return function(*values)

    program = capture_program(Net(), inputs, {}, training=False, optimizer=None, name="net")
    return program, draft_graph(program.micro, program.constants)


def test_dropout_becomes_a_function_of_the_seed():
    _, draft = draft_of(lambda x: nn.functional.dropout(x, 0.25), torch.ones(4, 8))
    sample_from_seed(draft)
    assert [entry.kind for entry in draft.inputs].count(InputKind.SEED) == 1
    assert len(draft.graph.find_nodes(op="call_function", target=random_bits)) == 1
    assert all(isinstance(node.meta["val"], torch.Tensor) for node in draft.graph.nodes if node.op == "call_function")
    module = fx.GraphModule(nn.Module(), draft.graph)
    arguments = {InputKind.SEED: SEED, InputKind.INPUT: torch.ones(4, 8)}
    by_node = {entry.node: arguments[entry.kind] for entry in draft.inputs} | draft.bound
    (result,) = module(*(by_node[node.name] for node in draft.graph.find_nodes(op="placeholder")))
    kept = (sample_bits(SEED, 0, (4, 8)).to(torch.int64) + 2**31) < 0.75 * 2**32
    assert torch.equal(result, kept.to(torch.float32) / 0.75)


@pytest.mark.parametrize(
    ("function", "mean", "variance"),
    [
        (lambda x: nn.functional.dropout(x, 0.2), 1.0, 0.2 / 0.8),
        (lambda x: torch.bernoulli(x * 0.3), 0.3, 0.21),
        (lambda x: torch.rand_like(x), 0.5, 1 / 12),
        (lambda x: torch.empty_like(x).uniform_(-1, 3), 1.0, 16 / 12),
        (lambda x: torch.rand(x.shape), 0.5, 1 / 12),
    ],
    ids=["dropout", "bernoulli", "rand_like", "uniform", "rand"],
)
def test_samples_have_the_moments_of_their_distribution(function, mean, variance):
    ones = torch.ones(100, 1000)
    program, _ = draft_of(function, ones)
    executable = Executable(program, RunOptions(random_seed=1))
    (values,) = executable.run([ones]).outputs
    assert values.mean().item() == pytest.approx(mean, abs=5 * math.sqrt(variance / values.numel()))
    assert values.var().item() == pytest.approx(variance, rel=0.03)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_samples_are_certain(probability):
    zeros = torch.zeros(50, 50)
    program, _ = draft_of(lambda x: x.bernoulli(probability), zeros)
    (values,) = Executable(program, RunOptions(random_seed=1)).run([zeros]).outputs
    assert values.eq(probability).all()


def test_uniform_half_numbers_stay_below_one():
    program, _ = draft_of(lambda x: torch.rand_like(x), torch.zeros(300, 300, dtype=torch.half))
    (values,) = Executable(program, RunOptions(random_seed=1)).run([torch.zeros(300, 300, dtype=torch.half)]).outputs
    assert values.dtype is torch.half
    assert values.max() < 1
    assert values.min() >= 0
