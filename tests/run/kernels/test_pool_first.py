"""Rectifying after pooling: the same results and gradients, wherever nothing else reads what was rectified."""

from __future__ import annotations

import pytest
import torch

from openipu.graph import OutputKind, RunOptions
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.images.pool_first import RULES

aten = torch.ops.aten
FRONT, BACK = [0, 3, 1, 2], [0, 2, 3, 1]


def make_layer(window, stride, padding=0, turned=True, extra=lambda rectified, pooled, places: ()):
    """Rectify and pool with channels last, and the gradient, as TensorFlow has them; or plainly, as PyTorch does."""
    places = ([window] * 2, [stride] * 2, [padding] * 2, [1, 1], False)

    def layer(images, gradient):
        rectified = torch.relu(images)
        seen = rectified.permute(FRONT) if turned else rectified
        pooled, where = aten.max_pool2d_with_indices(seen, *places)
        incoming = gradient.permute(FRONT) if turned else gradient
        found = aten.max_pool2d_with_indices_backward(incoming, seen, *places, where)
        of_input = aten.threshold_backward(found.permute(BACK) if turned else found, rectified, 0)
        return pooled.permute(BACK) if turned else pooled, of_input, *extra(rectified, pooled, where)

    return layer


def draw(window, stride, padding, turned):
    generator = torch.Generator().manual_seed(0)
    size = (7 + 2 * padding - window) // stride + 1
    images = torch.randint(-3, 3, (2, 7, 7, 8), generator=generator).float()  # with ties, at 0 and elsewhere
    gradient = torch.randn((2, size, size, 8), generator=generator)
    return [images, gradient] if turned else [value.permute(FRONT).contiguous() for value in (images, gradient)]


def draft(build_program, layer, values):
    returns = [(OutputKind.OUTPUT, str(place)) for place in range(len(layer(*values)))]
    program = build_program(layer, inputs=dict(zip(("images", "gradient"), values, strict=True)), returns=returns)
    return draft_micro(program, RunOptions())


def find_rectified(subject):
    return [node.meta["val"].numel() for node in subject.graph.find_nodes(op="call_function", target=aten.relu.default)]


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize(("window", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_what_is_pooled_is_rectified_afterwards(build_program, window, stride, padding, turned):
    layer, values = make_layer(window, stride, padding, turned), draw(window, stride, padding, turned)
    values[0].view(-1)[5] = float("nan")
    wanted = layer(*values)
    subject = draft(build_program, layer, values)
    apply_rules(subject.graph, RULES)
    subject.graph.lint()
    assert find_rectified(subject) == [wanted[0].numel()]
    found = generate_function(subject.graph, subject.bound, "test")(*values)
    for value, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "extra",
    [
        lambda rectified, pooled, where: (rectified.sum(),),
        lambda rectified, pooled, where: (where.clone(),),
    ],
    ids=["what was rectified", "where the largest lie"],
)
def test_what_others_read_stays_as_it_is(build_program, extra):
    layer, values = make_layer(2, 2, extra=extra), draw(2, 2, 0, True)
    subject = draft(build_program, layer, values)
    apply_rules(subject.graph, RULES)
    assert find_rectified(subject) == [values[0].numel()]
