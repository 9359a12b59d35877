"""Convolutions whose filters lie as [window, in, out]: products of matrices."""

from __future__ import annotations

import pytest
import torch

from openipu.graph import OutputKind, RunOptions
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.images.channels_last import PRODUCTS

aten = torch.ops.aten
RETURNS = [(OutputKind.OUTPUT, name) for name in ("result", "of_input", "of_filter")]


def make_layer(rank, stride=1, padding=0, groups=1, filter_first=False, more=0):
    """The result of a convolution with channels last, and both gradients, as TensorFlow has them."""
    front, back = [0, rank + 1, *range(1, rank + 1)], [0, *range(2, rank + 2), 1]
    places = ([stride] * rank, [padding] * rank, [1] * rank)

    def layer(images, weight, bias, gradient):
        images, gradient = images.permute(front), gradient.permute(front)
        turned = weight if filter_first else weight.permute([rank + 1, rank, *range(rank)])
        result = aten.convolution(images, turned, bias, *places, False, [0] * rank, groups)
        of_input = aten.convolution(gradient, turned, None, *places, True, [more] * rank, groups)
        blank = gradient.new_zeros(()).expand(turned.shape)
        found = aten.convolution_backward(
            gradient, images, blank, None, *places, False, [0] * rank, groups, [False, True, False]
        )
        of_filter = found[1] if filter_first else found[1].permute([*range(2, rank + 2), 1, 0])
        return result.permute(back), of_input.permute(back), of_filter

    return layer


def draw(rank, window, dtype=torch.float32, filter_first=False):
    generator = torch.Generator().manual_seed(0)
    filter_sizes = (4, 3, *[window] * rank) if filter_first else (*[window] * rank, 3, 4)
    shapes = [(2, *[5] * rank, 3), filter_sizes, (4,), (2, *[5] * rank, 4)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def draft(build_program, layer, values):
    inputs = dict(zip(("images", "weight", "bias", "gradient"), values, strict=True))
    program = build_program(layer, inputs=inputs, returns=RETURNS)
    return draft_micro(program, RunOptions())


def count(subject, *targets):
    return sum(node.target in targets for node in subject.graph.nodes)


def check(subject, layer, values):
    subject.graph.lint()
    assert all("val" in node.meta for node in subject.graph.nodes if node.op == "call_function")
    found = generate_function(subject.graph, subject.bound, "test")(*values)
    for value, wanted in zip(found, layer(*values), strict=True):
        assert value.shape == wanted.shape
        torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convolutions_of_single_pixels_and_both_gradients_are_products(build_program, rank, dtype):
    layer, values = make_layer(rank), draw(rank, 1, dtype)
    subject = draft(build_program, layer, values)
    apply_rules(subject.graph, PRODUCTS)
    assert count(subject, aten.mm.default, aten.addmm.default) == 3
    assert count(subject, aten.convolution.default, aten.convolution_backward.default, aten.new_zeros.default) == 0
    check(subject, layer, values)


def test_rows_are_read_as_they_lie(build_program):
    subject = draft(build_program, make_layer(2), draw(2, 1))
    apply_rules(subject.graph, PRODUCTS)
    assert count(subject, aten.clone.default, aten.contiguous.default) == 0
    (product,) = subject.graph.find_nodes(op="call_function", target=aten.addmm.default)
    rows = product.args[1]
    assert rows.target is aten.reshape.default
    assert rows.args[0].op == "placeholder"


@pytest.mark.parametrize(
    ("options", "window"),
    [({"padding": 1}, 1), ({"padding": 1}, 3), ({"filter_first": True}, 1)],
    ids=["padding", "larger windows", "filters with channels in front"],
)
def test_other_convolutions_stay(build_program, options, window):
    layer, values = make_layer(2, **options), draw(2, window, filter_first=options.get("filter_first", False))
    sizes = layer_sizes(options, window)
    values[3] = torch.randn(2, sizes, sizes, 4)
    subject = draft(build_program, layer, values)
    apply_rules(subject.graph, PRODUCTS)
    assert count(subject, aten.mm.default, aten.addmm.default) == 0
    assert count(subject, aten.convolution.default) == 2


def layer_sizes(options, window):
    return 5 + 2 * options.get("padding", 0) - window + 1


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize(("size", "stride", "more"), [(5, 2, 0), (6, 2, 1), (7, 3, 0), (9, 3, 2)])
def test_products_read_every_second_pixel_and_put_zeros_between_those_of_the_gradient(
    build_program, rank, size, stride, more
):
    layer, values = make_layer(rank, stride, more=more), draw(rank, 1)
    values[0] = torch.randn(2, *[size] * rank, 3)
    values[3] = torch.randn(2, *[(size - 1) // stride + 1] * rank, 4)
    subject = draft(build_program, layer, values)
    apply_rules(subject.graph, PRODUCTS)
    assert count(subject, aten.mm.default, aten.addmm.default) == 3
    assert count(subject, aten.convolution.default, aten.convolution_backward.default) == 0
    check(subject, layer, values)


def test_a_bias_between_pixels_that_lie_apart_is_left_to_the_convolution(build_program):
    def layer(images, weight, bias, gradient):
        turned, places = weight.permute(3, 2, 0, 1), ([2, 2], [0, 0], [1, 1])
        return (aten.convolution(gradient.permute(0, 3, 1, 2), turned, bias, *places, True, [1, 1], 1),)

    values = draw(2, 1)
    values[2] = torch.randn(3)
    inputs = dict(zip(("images", "weight", "bias", "gradient"), values, strict=True))
    subject = draft_micro(build_program(layer, inputs=inputs, returns=RETURNS[:1]), RunOptions())
    apply_rules(subject.graph, PRODUCTS)
    assert count(subject, aten.convolution.default) == 1


def test_half_stays_as_it_is(build_program):
    subject = draft(build_program, make_layer(2), draw(2, 1, torch.float16))
    before = count(subject, aten.convolution.default)
    apply_rules(subject.graph, PRODUCTS)
    assert count(subject, aten.convolution.default) == before
