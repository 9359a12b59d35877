"""`out=` and `resize_()`: a tensor that is given another size holds and shows what eager torch has there."""

from __future__ import annotations

import warnings

import pytest
import torch

from openipu.errors import CaptureError
from openipu.graph import OutputKind


def add_to(out):
    def program(x):
        given = out(x)
        torch.add(x, 1, out=given)
        return given * 1

    return program


def reduce_into_memory_that_a_view_shows(x):
    y = x * 2
    view = y.view(-1)
    torch.add(x.sum(0), 1, out=y)
    return y.sum() + view.sum()


def maximum_with_indices(x):
    values, indices = x.new_empty(0), torch.empty(0, dtype=torch.int64, device=x.device)
    torch.max(x, 1, out=(values, indices))
    return values + indices


def grow_and_keep(x):
    y = x * 2
    y.resize_(3, 3)
    y[2] = 1.0
    return y * 1


def make_room(x):
    y = x.new_empty(0)
    y.resize_(2, 3)
    y.copy_(x)
    return y * 2


PROGRAMS = {
    "out is empty": add_to(lambda x: x.new_empty(0)),
    "out has the shape": add_to(torch.empty_like),
    "out has another shape": add_to(lambda x: x.new_zeros(6)),
    "out is larger": add_to(lambda x: x.new_zeros(3, 4)),
    "out is smaller": add_to(lambda x: x.new_zeros(3)),
    "out was computed": add_to(lambda x: x[:1] * 2),
    "a view of out": reduce_into_memory_that_a_view_shows,
    "two outs": maximum_with_indices,
    "grown": grow_and_keep,
    "grown from nothing": make_room,
    "resized": lambda x: (x * 2).resize_(6).add_(1),
    "shrunk": lambda x: (x * 2).resize_(4).add_(1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tensor_that_is_resized_holds_what_eager_has(name, capture_inference, run_micro):
    program, x = PROGRAMS[name], torch.arange(6.0).reshape(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eager's own, for each `out` of another shape
        wanted = program(x.clone())
        captured = capture_inference(program, x)
    result = run_micro(captured, None, x).of(OutputKind.OUTPUT)["output_0"]
    assert result.shape == wanted.shape
    assert torch.equal(result, wanted)


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_an_input_that_is_the_out_of_a_product_comes_back_in_the_shape_that_it_was_given(
    shape, capture_inference, run_micro
):
    # A vector times a matrix is computed in a matrix of one row: `out` is resized to that, and then squeezed.
    vector, matrix, out = torch.arange(2.0), torch.arange(6.0).reshape(2, 3), torch.zeros(shape)

    def program(vector, matrix, out):
        before = out + 1
        return torch.matmul(vector, matrix, out=out), before

    captured = capture_inference(program, vector, matrix, out)
    results = run_micro(captured, None, vector, matrix, out)
    assert torch.equal(results.of(OutputKind.OUTPUT)["output_0"], vector @ matrix)
    assert torch.equal(results.of(OutputKind.OUTPUT)["output_1"], torch.ones(shape))
    assert torch.equal(results.of(OutputKind.INPUT)["out"], (vector @ matrix).reshape(shape))


@pytest.mark.parametrize("grow", [lambda x: x.resize_(3, 3), lambda x: torch.add(x.expand(2, 2, 3), 1, out=x)])
def test_an_input_cannot_grow(grow, capture_inference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CaptureError, match=r"shape \[2, 3\] is resized to .*cannot grow.*Make a tensor of shape"):
            capture_inference(grow, torch.zeros(2, 3))


def test_memory_that_a_view_shows_as_well_cannot_grow(capture_inference):
    def program(x):
        y = x * 2
        view = y[0]
        y.resize_(3, 3)
        return y + view

    with pytest.raises(CaptureError, match="cannot grow"):
        capture_inference(program, torch.zeros(2, 3))
