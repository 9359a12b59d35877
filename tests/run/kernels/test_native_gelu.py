"""GELU by native code: the operator's results to the last bits, wherever the values lie."""

from __future__ import annotations

import pytest
import torch

from openipu.graph import OutputKind, RunOptions
from openipu.run.drafts.codegen import generate_function
from openipu.run.engines.micro import draft_micro
from openipu.run.engines.pass_list import BOUND, Setting
from openipu.run.native.shared_kernels import load_gelu
from openipu.run.passes import native_gelu
from openipu.run.passes.native_gelu import (
    bend,
    bend_gradient,
    bend_gradient_in_place,
    bend_natively,
    has_gelu,
    install_gelu,
)
from openipu.run.passes.reused_memory import reuse_memory

aten = torch.ops.aten
STRANGE = torch.tensor([0.0, -0.0, 1e-42, -3e38, 3e38, 1e10, -1e10, 12.0, -12.0, -6.5, torch.nan, torch.inf])


@pytest.fixture
def kernel(shared_native):
    """Native code, installed for one test."""
    found = load_gelu(shared_native)
    install_gelu(found)
    yield found
    install_gelu(None)


def draw(count):
    generator = torch.Generator().manual_seed(0)
    return 4 * torch.randn(count, generator=generator), torch.randn(count, generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 15, 16, 17, 4095, 4096, 4097, 70001])
def test_native_code_bends_values_and_gradients_as_the_operators_do(kernel, count):
    values, gradient = draw(count)
    wide = [value.double() for value in (values, gradient)]
    torch.testing.assert_close(bend(values).double(), aten.gelu(wide[0], approximate="tanh"), rtol=1e-6, atol=1e-6)
    expected = aten.gelu_backward(wide[1], wide[0], approximate="tanh")
    before = gradient.clone()
    torch.testing.assert_close(bend_gradient(gradient, values).double(), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(gradient, before)
    found = bend_gradient_in_place(gradient, values)
    assert found.data_ptr() == gradient.data_ptr()
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_values_far_away_are_kept_or_zero(kernel):
    found, expected = bend(STRANGE), aten.gelu(STRANGE, approximate="tanh")
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9, equal_nan=True)
    near = STRANGE[STRANGE.abs() < 1e12]  # beyond, the operator's gradient is no number
    ones = torch.ones_like(near)
    expected = aten.gelu_backward(ones, near, approximate="tanh")
    torch.testing.assert_close(bend_gradient(ones, near), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_values_that_lie_turned_are_bent_where_they_are(kernel):
    values, gradient = (value.view(40, 50).t() for value in draw(2000))
    torch.testing.assert_close(bend(values), aten.gelu(values, approximate="tanh"), rtol=1e-5, atol=1e-6)
    expected = aten.gelu_backward(gradient, values, approximate="tanh")
    torch.testing.assert_close(bend_gradient(gradient, values), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(bend_gradient(gradient.contiguous(), values), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_graph_bends_natively_and_leaves_other_forms_alone(build_program, monkeypatch, kernel):
    monkeypatch.setattr(native_gelu, "_SMALLEST_ELEMENTS", 1)

    def layer(x, gradient):
        bent = aten.gelu(x, approximate="tanh")
        return bent, aten.gelu_backward(gradient * 2, x, approximate="tanh"), aten.gelu(x), aten.gelu_backward(x, x)

    values = [value.view(150, 200) for value in draw(30000)]
    returns = [(OutputKind.OUTPUT, str(place)) for place in range(4)]
    program = build_program(layer, inputs=dict(zip(("x", "gradient"), values, strict=True)), returns=returns)
    draft = draft_micro(program, RunOptions())
    bend_natively(draft)
    reuse_memory(draft)
    draft.graph.lint()
    targets = [node.target for node in draft.graph.nodes]
    assert [targets.count(target) for target in (bend, bend_gradient_in_place, aten.gelu.default)] == [1, 1, 1]
    before = [value.clone() for value in values]
    found = generate_function(draft.graph, draft.bound, "test")(*values)
    torch.testing.assert_close(tuple(found), layer(*values), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(values, before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "uses"),
    [
        (RunOptions(training=True), True),
        (RunOptions(), False),  # packed products have their own
        (RunOptions(training=True, deterministic=True), False),
        (RunOptions(training=True, floating_point_exceptions=True), False),
    ],
)
def test_deterministic_runs_and_inference_do_without(options, uses):
    install_gelu(lambda *arguments: None)
    try:
        assert has_gelu()
        (entry,) = [entry for entry in BOUND if entry.name == "gelu by native code"]
        assert entry.when(Setting(None, options)) is uses
    finally:
        install_gelu(None)
