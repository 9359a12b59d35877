"""Stochastic rounding in one call: by native code, or by operators with the same bits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from torch import fx, nn

from openipu.capture import capture_program
from openipu.graph import RunOptions
from openipu.numerics import Overflow
from openipu.run import Executable
from openipu.run.half.rounded_draws import (
    Rows,
    fuse_draws,
    has_kernel,
    install_kernel,
    round_by_chance,
    round_in_place,
    round_rows_into,
    round_wide,
)
from openipu.run.half.rounded_products import has_half_products, install_half_products
from openipu.run.half.rounding import round_half
from openipu.run.images.tiled_convolutions import has_tiles, install_tiles
from openipu.run.native import NotCompiledError, prepare_kernels, shared_kernels, take_over_kernels
from openipu.run.native.shared_kernels import load_rounding, write_job
from openipu.run.passes.native_dropout import has_dropout, install_dropout
from openipu.run.passes.native_gelu import has_gelu, install_gelu
from openipu.run.passes.native_products import has_products, install_products
from openipu.run.passes.seeded_random import draw_bits, random_bits

SEED, SEEDS = torch.tensor(7, dtype=torch.int32), torch.tensor([7, 8, 9], dtype=torch.int32)
SHAPES = [(), (1,), (6,), (5, 1), (1, 7), (3, 4, 5), (2, 70000), (300, 301)]
STRANGE = torch.tensor(
    [0.0, -0.0, 1e-8, -3e-6, 6e-5, 65504.0, 65519.0, -65521.0, 1e6, torch.inf, -torch.inf, torch.nan]
)


@pytest.fixture
def kernel(shared_native):
    """Native code, compiled into a cache of its own."""
    return load_rounding(shared_native)


@pytest.fixture
def installed(kernel):
    install_kernel(kernel)
    yield
    install_kernel(None)


def draw_values(shape, seed):
    batched = (*seed.shape, *shape)
    values = torch.randn(batched, generator=torch.Generator().manual_seed(0))
    return values * torch.logspace(-9, 3, max(values.numel(), 2))[: values.numel()].reshape(batched)


def round_by_operators(values, seed, shape, overflow):
    return round_half(values, draw_bits(seed, 3, shape), overflow.value)


def compare(found, expected):
    assert found.shape == expected.shape
    assert torch.equal(found.view(torch.int16), expected.view(torch.int16))  # zeros have signs, and NaNs are equal


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEEDS], ids=["one seed", "three seeds"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_code_gives_the_bits_of_the_operators(installed, shape, seed):
    values = draw_values(shape, seed)
    found = round_by_chance(values, seed, 3, shape, "infinity")
    compare(found, round_by_operators(values, seed, shape, Overflow.INFINITY))


@pytest.mark.slow
@pytest.mark.parametrize("overflow", list(Overflow))
def test_native_code_knows_what_is_too_large_infinite_or_no_number(installed, overflow):
    found = round_by_chance(STRANGE, SEED, 3, STRANGE.shape, overflow.value)
    expected = round_by_operators(STRANGE, SEED, STRANGE.shape, overflow)
    assert torch.equal(found.isnan(), expected.isnan())
    compare(found.nan_to_num(0.5), expected.nan_to_num(0.5))


@pytest.mark.slow
def test_values_that_do_not_lie_side_by_side_are_rounded_where_they_are(installed):
    values = draw_values((40, 30), SEED).t()
    compare(
        round_by_chance(values, SEED, 3, (30, 40), "infinity"),
        round_by_operators(values, SEED, (30, 40), Overflow.INFINITY),
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEEDS], ids=["one seed", "three seeds"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_code_rounds_in_place_to_the_same_numbers(installed, shape, seed):
    values = draw_values(shape, seed)
    expected = round_by_operators(values, seed, shape, Overflow.INFINITY).float()
    before = values.clone()
    apart = round_wide(values, seed, 3, shape, "infinity")
    assert torch.equal(values, before)
    found = round_in_place(values, seed, 3, shape, "infinity")
    assert found.data_ptr() == values.data_ptr()
    for result in (apart, found):
        assert torch.equal(result.view(torch.int32), expected.view(torch.int32))


@pytest.mark.slow
def test_native_code_rounds_rows_by_their_places(installed):
    values = draw_values((50, 9), SEED)
    whole, places = round_by_operators(values, SEED, (50, 9), Overflow.INFINITY), torch.tensor([49, 7, 7, 0])
    for rows, chosen in ((Rows(11, 20, 9), slice(11, 31)), (Rows(0, 4, 9, places), places)):
        found = torch.empty((rows.count, 9), dtype=torch.half)
        round_rows_into(found, values[chosen].contiguous(), SEED, 3, rows, "infinity")
        compare(found, whole[chosen])


@pytest.mark.slow
def test_a_program_computes_the_same_with_native_code(kernel):
    model, rows = nn.Linear(40, 24).half(), torch.rand(8, 40).half()

    def run():
        program = capture_program(model.eval(), (rows,), {}, training=False, optimizer=None, name="net")
        executable = Executable(program, RunOptions(stochastic_rounding=True, random_seed=5))
        executable.load_weights(dict(model.named_parameters()), {})
        return executable.run([rows]).outputs[0]

    before = run()
    calls = []
    install_kernel(lambda *operands: calls.append(operands) or kernel(*operands))
    try:
        assert torch.equal(run(), before)
    finally:
        install_kernel(None)
    assert calls


def test_without_native_code_the_operators_round():
    values = draw_values((3, 5), SEED)
    compare(
        round_by_chance(values, SEED, 3, (3, 5), "saturate"),
        round_by_operators(values, SEED, (3, 5), Overflow.SATURATE),
    )


def test_bits_that_somebody_else_reads_are_drawn_apart():
    graph = fx.Graph()
    values, seed = graph.placeholder("values"), graph.placeholder("seed")
    bits = graph.call_function(random_bits, (seed, 0, [4]))
    graph.output((graph.call_function(round_half, (values, bits, "infinity")), bits))
    fuse_draws(graph)
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [random_bits, round_half]


class Build:
    """A compilation that ends when the test says so."""

    made: ClassVar[list[Build]] = []

    def __init__(self, job, *, background):
        assert not background, "at a low priority it would take half a minute"
        self.done, self.result = False, None
        Build.made.append(self)

    def finish(self):
        if self.result is None:
            raise NotCompiledError("there is no compiler")
        return self.result


@pytest.fixture
def builds(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(shared_kernels, "_builds", [])
    monkeypatch.setattr(shared_kernels, "NativeBuild", Build)
    Build.made.clear()
    return Build.made


def test_nothing_is_compiled_that_was_not_asked_for(builds):
    prepare_kernels(build=False)
    assert not has_kernel()
    assert not builds


def test_programs_share_one_compilation_and_any_of_them_takes_it_over(builds, monkeypatch):
    for _ in range(2):
        prepare_kernels(build=True)
    (build,) = builds
    take_over_kernels()
    assert not has_kernel(), "it is not done yet"
    build.done, build.result = True, SimpleNamespace(library="library")
    monkeypatch.setattr(shared_kernels, "_load", lambda native, name, arguments: native.library)
    take_over_kernels()
    assert has_kernel()
    assert has_dropout()
    assert has_products()


def find_installed():
    return [has_kernel(), has_dropout(), has_gelu(), has_products(), has_half_products(), has_tiles()]


@pytest.mark.slow
def test_another_process_finds_the_code_in_the_cache(native_cache, shared_native, monkeypatch):
    monkeypatch.setenv("OPENIPU_CACHE_DIR", str(native_cache))
    monkeypatch.setattr(shared_kernels, "_builds", [])
    prepare_kernels(build=False)
    assert find_installed() == [True] * 6


def test_any_number_of_threads_runs_the_same_code():
    keys = set()
    for threads in (1, 2, 3):  # the next test has its own number again
        torch.set_num_threads(threads)
        keys.add(write_job().key)
    assert len(keys) == 1


def test_code_that_a_test_installs_is_gone_for_the_next_one(keep_kernels):
    def install(kernel, builds):
        for install_code in (install_kernel, install_dropout, install_gelu, install_products):
            install_code(kernel)
        install_half_products(kernel)
        install_tiles(kernel)
        shared_kernels._builds[:] = builds

    with keep_kernels():
        install(lambda *operands: None, [])
        with keep_kernels():
            assert (find_installed(), shared_kernels._builds) == ([False] * 6, [None])
            install(lambda *operands: None, [])
        assert (find_installed(), shared_kernels._builds) == ([True] * 6, [])
    assert (find_installed(), shared_kernels._builds) == ([False] * 6, [None])


def test_code_in_the_cache_is_not_there_for_a_test_that_did_not_ask(monkeypatch):
    monkeypatch.setattr(shared_kernels, "find_native", lambda key: pytest.fail("it was looked for"))
    prepare_kernels(build=True)
    assert not has_kernel()


def test_without_a_compiler_it_is_tried_once(builds):
    prepare_kernels(build=True)
    builds[0].done = True
    take_over_kernels()
    prepare_kernels(build=True)
    assert not has_kernel()
    assert len(builds) == 1


def test_a_library_that_cannot_be_loaded_stops_no_program(builds, monkeypatch):
    def fail(key):
        raise RuntimeError("cannot be mapped")

    monkeypatch.setattr(shared_kernels, "find_native", fail)
    prepare_kernels(build=True)
    assert not has_kernel()
    assert not builds
