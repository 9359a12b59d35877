"""Products with half partials in one call: by native code, the sums of chunks and roundings apart."""

from __future__ import annotations

import itertools
from operator import getitem

import pytest
import torch
from torch import fx, nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import EngineMode, RunOptions
from openipu.numerics import Overflow, choose_chunk
from openipu.run import Executable
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import apply_rules
from openipu.run.kernels.catalog import HALF_PRODUCTS, MULTIPLY_IN_HALF
from openipu.run.rewrites.half.rounded_products import (
    make_rules,
    multiply_in_half,
)
from openipu.run.rewrites.half.rounding import round_values
from openipu.run.rewrites.half.stochastic_rounding import round_in_place, round_stochastically

aten = torch.ops.aten
SEED = torch.tensor(7, dtype=torch.int32)
# Rows, inputs and columns: parts of a tile, whole ones, some more; inputs that are no multiple of a vector.
SHAPES = [(1, 17, 1), (5, 33, 7), (12, 64, 32), (13, 64, 33), (40, 100, 70), (100, 300, 2), (7, 1100, 200)]
FIRST = 3  # sample


@pytest.fixture
def kernel(use_kernels):
    return use_kernels(HALF_PRODUCTS)[HALF_PRODUCTS][MULTIPLY_IN_HALF]


def sample_exact(*shape, scale):
    """Numbers whose products add up exactly in float32, in whatever order."""
    return torch.randint(-5, 6, shape).float() / scale


def lay(matrix, columns):
    return matrix.t().contiguous().t() if columns else matrix.contiguous()


def round_sum(total, seed, sample, overflow):
    if seed is None:
        return round_values(Overflow(overflow), total).float()
    return round_stochastically(total, seed, sample, list(total.shape), overflow).float()


def multiply_in_chunks(left, right, addend, chunk, seed, overflow="infinity"):
    """What native code is to compute, by operators."""
    total, samples = torch.zeros(left.shape[0], right.shape[1]), itertools.count(FIRST)
    for some, others in zip(left.float().split(chunk, 1), right.float().split(chunk, 0), strict=True):
        total = round_sum(total + some @ others, seed, next(samples), overflow)
    return total if addend is None else round_sum(total + addend, seed, next(samples), overflow)


def multiply(kernel, left, right, addend, chunk, seed, overflow="infinity", dtype=torch.float32):
    count = -(-left.shape[1] // chunk)
    samples = (FIRST, FIRST + count - 1, FIRST + count)
    return multiply_in_half(left, right, addend, chunk, seed, samples, overflow, dtype, kernel)


def compare(found, expected):
    assert torch.equal(found.float().isnan(), expected.isnan())
    assert torch.equal(found.float().nan_to_num(1.0), expected.nan_to_num(1.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, None], ids=["by chance", "to nearest"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_rounded_as_operators_round_them(kernel, threads, shape, seed):
    rows, inputs, columns = shape
    left, right = sample_exact(rows, inputs, scale=4), sample_exact(inputs, columns, scale=64)
    bias = sample_exact(columns, scale=8)
    for chunk, addend, layout in itertools.product((16, choose_chunk(inputs)), (None, bias), range(4)):
        if -(-inputs // chunk) > 4:
            continue
        operands = lay(left, layout & 1), lay(right, layout & 2)
        expected = multiply_in_chunks(*operands, addend, chunk, seed)
        compare(multiply(kernel, *operands, addend, chunk, seed), expected)
        half = multiply(kernel, operands[0], operands[1].half(), addend, chunk, seed, dtype=torch.float16)
        assert half.dtype is torch.float16
        compare(half, expected)
        compare(multiply(kernel, operands[0].half(), operands[1], addend, chunk, seed), expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, None], ids=["by chance", "to nearest"])
@pytest.mark.parametrize("overflow", [kind.value for kind in Overflow])
def test_numbers_of_all_sizes_are_rounded_as_operators_round_them(kernel, seed, overflow):
    """A single input: sums are the numbers themselves, whatever bits they have."""
    random = torch.Generator().manual_seed(1)
    numbers = torch.randint(-(2**31), 2**31 - 1, (4000, 64), generator=random).to(torch.int32).view(torch.float32)
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16).float().view(-1, 64)
    with_nearest = torch.cat((halves, halves.nextafter(torch.tensor(9e9)), halves.nextafter(torch.tensor(-9e9))))
    ties = (with_nearest + with_nearest.roll(1, 1)) / 2
    for values in (numbers, with_nearest, ties, ties.nextafter(torch.tensor(0.0))):
        ones = torch.ones(1, 1)
        for column in (0, 63):
            left = values[:, column : column + 1].contiguous()
            compare(
                multiply(kernel, left, ones, None, 1, seed, overflow),
                multiply_in_chunks(left, ones, None, 1, seed, overflow),
            )


@pytest.mark.slow
def test_half_operands_are_read_to_the_last_bit(kernel):
    halves = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16)
    for right in (halves.view(1, -1), halves.view(-1, 1).t()):
        compare(multiply(kernel, torch.ones(1, 1), right, None, 1, None), right.float())
    left = halves.view(-1, 1)
    compare(multiply(kernel, left, torch.ones(1, 1), None, 1, None), left.float())


@pytest.mark.slow
def test_operands_may_be_views(kernel):
    left, right = sample_exact(60, 160, scale=4)[::2, ::2], sample_exact(80, 100, scale=64)[:, ::2]
    row = sample_exact(1, scale=8).expand(50)
    expected = multiply_in_chunks(left, right, row, 32, SEED)
    compare(multiply(kernel, left, right, row, 32, SEED), expected)
    compare(
        multiply(kernel, left[:1].expand(5, 80), right, row, 32, None),
        multiply_in_chunks(left[:1].expand(5, 80), right, row, 32, None),
    )


@pytest.mark.slow
def test_what_is_not_a_number_stays_in_its_rows_and_columns(kernel):
    left, right = sample_exact(30, 80, scale=4), sample_exact(80, 50, scale=64)
    left[29, 3], right[70, 49] = torch.nan, torch.inf
    compare(multiply(kernel, left, right, None, 32, None), multiply_in_chunks(left, right, None, 32, None))


@pytest.mark.slow
def test_nothing_is_written_where_there_are_no_rows_or_columns(kernel):
    assert multiply(kernel, torch.ones(0, 20), torch.ones(20, 3), None, 16, SEED).shape == (0, 3)
    assert multiply(kernel, torch.ones(2, 20), torch.ones(20, 0), None, 16, SEED).shape == (2, 0)


WIDTH, BATCH = 96, 24


class Branches(nn.Module):
    """Two products that are added, of which the second one was computed first, and one more that is added to a row."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, rows):
        first = self.layers[0](rows)
        second = self.layers[1](rows)
        return (second + first) * self.layers[2](first[:1])


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, rows):
        return nn.functional.mse_loss(self.second(torch.relu(self.first(rows))).float(), rows.float())


def make_executable(**options):
    torch.manual_seed(0)
    net = Perceptron().half()
    rows = torch.randn(BATCH, WIDTH).half()
    settings = {"stochastic_rounding": True, "half_partials": True, "random_seed": 5, "engine": EngineMode.OPERATORS}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in net.named_parameters()})
    program = capture_program(net, (rows,), {}, training=True, optimizer=spec, name="perceptron")
    executable = Executable(program, RunOptions(training=True, **{**settings, **options}))
    executable.load_weights(dict(net.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    return executable, rows


def train(executable, rows, steps=1):
    for _ in range(steps):
        executable.run([rows])
    return executable.copy_weights([name for name, _ in Perceptron().named_parameters()])


def count_joined(drafts):
    return [sum(node.target is multiply_in_half for node in draft.graph.nodes) for draft in drafts]


def compare_trained(found, before):
    """Sums in another order are rounded to another number now and then, by a step of half."""
    for name, weight in found.items():
        same = (weight == before[name]).float().mean()
        assert same > 0.98, name
        torch.testing.assert_close(weight, before[name], rtol=2e-2, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"stochastic_rounding": False}], ids=["by chance", "to nearest"])
def test_a_program_trains_as_it_does_without_native_code(use_kernels, bound_drafts, options):
    before = train(*make_executable(**options))
    use_kernels(HALF_PRODUCTS)
    found = train(*make_executable(**options))
    # two layers, their two gradients, and that of the rows between them
    assert count_joined(bound_drafts) == [0, 5]
    targets = [node.target for node in bound_drafts[1].graph.nodes]
    assert not {aten.mm.default, aten.split.Tensor} & set(targets)
    compare_trained(found, before)


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_weights_are_read_in_half_unless_they_change_on_the_way(kernel, bound_drafts, accumulation):
    executable, rows = make_executable(gradient_accumulation=accumulation)
    executable.run([rows.repeat(accumulation, 1)])
    (draft,) = bound_drafts
    (biased,) = (node for node in draft.graph.nodes if node.target is multiply_in_half and node.args[2] is not None)
    half = biased.args[1].meta["val"].dtype is torch.float16
    assert half is (accumulation > 1), "where gradients are accumulated, weights are updated when all is done"


@pytest.mark.slow
def test_products_that_are_added_to_one_another_are_one_call_each(kernel, use_kernels, bound_drafts):
    torch.manual_seed(0)
    net, rows = Branches().half().eval(), torch.randn(BATCH, WIDTH).half()

    def infer():
        program = capture_program(net, (rows,), {}, training=False, optimizer=None, name="branches")
        options = RunOptions(stochastic_rounding=True, half_partials=True, random_seed=5, engine=EngineMode.OPERATORS)
        executable = Executable(program, options)
        executable.load_weights(dict(net.named_parameters()), {})
        return executable.run([rows]).outputs[0]

    found = infer()
    assert count_joined(bound_drafts) == [3]
    use_kernels()
    expected = infer()
    assert (found == expected).float().mean() > 0.98
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"deterministic": True}, {"floating_point_exceptions": True}], ids=str)
def test_deterministic_and_checked_programs_do_not_use_it(kernel, bound_drafts, options):
    train(*make_executable(**options))
    assert count_joined(bound_drafts) == [0]


def test_without_the_kernel_libraries_multiply(bound_drafts):
    train(*make_executable())
    assert count_joined(bound_drafts) == [0]


def write_chain(change=None):
    """A product in two chunks, as `partials.py` writes it, with some change."""
    graph = fx.Graph()
    shapes = {"left": (6, 32), "right": (32, 8), "seed": ()}
    values = {name: graph.placeholder(name) for name in shapes}
    for name, node in values.items():
        node.meta["val"] = torch.empty(shapes[name], dtype=torch.int32 if name == "seed" else None, device="meta")

    def call(target, *args, shape=(6, 8), **kwargs):
        node = graph.call_function(target, args, kwargs)
        node.meta["val"] = torch.empty(shape, device="meta")
        return node

    cuts = call(aten.split.Tensor, values["left"], 16, -1), call(aten.split.Tensor, values["right"], 16, -2)
    parts = []
    for place in range(2):
        some = call(getitem, cuts[0], place, shape=(6, 16)), call(getitem, cuts[1], place, shape=(16, 8))
        parts.append(call(aten.mm.default, *some))
    first = call(round_in_place, parts[0], values["seed"], 0, [6, 8], "infinity")
    total = call(aten.add.Tensor, first, parts[1])
    overflow = "saturate" if change == "another overflow" else "infinity"
    last = call(round_in_place, total, values["seed"], 1, [6, 8], overflow)
    results = {"a sum that is read": [last, total], "a part that is read": [last, parts[1]]}.get(change, [last])
    graph.output(tuple(results))
    if change == "parts in another order":
        parts[1].args = parts[0].args
    if change == "several seeds":
        values["seed"].meta["val"] = torch.empty(3, dtype=torch.int32, device="meta")
    return Draft(graph, (), ())


def test_a_chain_is_one_call():
    draft = write_chain()
    apply_rules(draft.graph, make_rules(None))
    assert [node.target for node in draft.graph.nodes if node.op == "call_function"] == [multiply_in_half]


@pytest.mark.parametrize(
    "change",
    ["another overflow", "a sum that is read", "a part that is read", "parts in another order", "several seeds"],
)
def test_other_chains_stay_as_they_are(change):
    draft = write_chain(change)
    before = [node.target for node in draft.graph.nodes]
    apply_rules(draft.graph, make_rules(None))
    after = [node.target for node in draft.graph.nodes]
    assert multiply_in_half not in after
    assert after == before
