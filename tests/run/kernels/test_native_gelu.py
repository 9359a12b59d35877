"""GELU by native code: the operator's results to the last bits, wherever the values lie."""

from __future__ import annotations

import pytest
import torch

from openipu.graph import OutputKind, RunOptions
from openipu.run import thresholds
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.engine.pass_list import BOUND
from openipu.run.engine.setting import Setting
from openipu.run.kernels import KernelLibrary
from openipu.run.kernels.catalog import COMPUTE_GELU, GELU
from openipu.run.rewrites.fusion.gelu_kernel import (
    compute_gelu,
    differentiate_gelu,
    differentiate_gelu_in_place,
    make_rules,
)
from openipu.run.rewrites.in_place.reused_memory import reuse_memory

aten = torch.ops.aten
STRANGE = torch.tensor([0.0, -0.0, 1e-42, -3e38, 3e38, 1e10, -1e10, 12.0, -12.0, -6.5, torch.nan, torch.inf])


@pytest.fixture
def kernel(use_kernels):
    return use_kernels(GELU)[GELU][COMPUTE_GELU]


def draw(count):
    generator = torch.Generator().manual_seed(0)
    return 4 * torch.randn(count, generator=generator), torch.randn(count, generator=generator)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 15, 16, 17, 4095, 4096, 4097, 70001])
def test_native_code_bends_values_and_gradients_as_the_operators_do(kernel, count):
    values, gradient = draw(count)
    wide = [value.double() for value in (values, gradient)]
    torch.testing.assert_close(
        compute_gelu(values, kernel).double(), aten.gelu(wide[0], approximate="tanh"), rtol=1e-6, atol=1e-6
    )
    expected = aten.gelu_backward(wide[1], wide[0], approximate="tanh")
    before = gradient.clone()
    torch.testing.assert_close(differentiate_gelu(gradient, values, kernel).double(), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(gradient, before)
    found = differentiate_gelu_in_place(gradient, values, kernel)
    assert found.data_ptr() == gradient.data_ptr()
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_values_far_away_are_kept_or_zero(kernel):
    found, expected = compute_gelu(STRANGE, kernel), aten.gelu(STRANGE, approximate="tanh")
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9, equal_nan=True)
    near = STRANGE[STRANGE.abs() < 1e12]  # beyond, the operator's gradient is no number
    ones = torch.ones_like(near)
    expected = aten.gelu_backward(ones, near, approximate="tanh")
    torch.testing.assert_close(differentiate_gelu(ones, near, kernel), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_values_that_lie_turned_are_bent_where_they_are(kernel):
    values, gradient = (value.view(40, 50).t() for value in draw(2000))
    torch.testing.assert_close(
        compute_gelu(values, kernel), aten.gelu(values, approximate="tanh"), rtol=1e-5, atol=1e-6
    )
    expected = aten.gelu_backward(gradient, values, approximate="tanh")
    torch.testing.assert_close(differentiate_gelu(gradient, values, kernel), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        differentiate_gelu(gradient.contiguous(), values, kernel), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.slow
def test_a_graph_bends_natively_and_leaves_other_forms_alone(build_program, monkeypatch, use_kernels):
    monkeypatch.setattr(thresholds, "GELU_ELEMENTS", 1)

    def layer(x, gradient):
        bent = aten.gelu(x, approximate="tanh")
        return bent, aten.gelu_backward(gradient * 2, x, approximate="tanh"), aten.gelu(x), aten.gelu_backward(x, x)

    values = [value.view(150, 200) for value in draw(30000)]
    returns = [(OutputKind.OUTPUT, str(place)) for place in range(4)]
    program = build_program(layer, inputs=dict(zip(("x", "gradient"), values, strict=True)), returns=returns)
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, make_rules(use_kernels(GELU)[GELU][COMPUTE_GELU]))
    reuse_memory(draft)
    draft.graph.lint()
    targets = [node.target for node in draft.graph.nodes]
    assert [targets.count(target) for target in (compute_gelu, differentiate_gelu_in_place, aten.gelu.default)] == [
        1,
        1,
        1,
    ]
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
    (entry,) = [entry for entry in BOUND if entry.name == "gelu by a kernel"]
    assert entry.when(Setting(None, options, library=KernelLibrary({GELU: None}))) is uses
    assert not entry.when(Setting(None, options))
