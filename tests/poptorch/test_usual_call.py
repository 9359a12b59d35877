"""The usual call takes a short way: with the same results, the same errors, and few steps of Python."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import poptorch


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, shift=None, scale=2.0):
        found = self.linear(x) * scale
        return found if shift is None else found + shift


class Counted(nn.Module):
    """Writes to an input, and to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, seen):
        seen += 1
        self.calls += 1
        return x + seen, "host value", self.calls.clone()


@pytest.fixture
def scaled():
    torch.manual_seed(0)
    model = poptorch.inferenceModel(Scaled().eval())
    yield model
    model.destroy()


def count_frames(call):
    """Functions of Python that a call enters."""
    entered = []
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def test_arguments_by_position_and_by_name_are_the_same_call(scaled):
    x, shift = torch.randn(2, 4), torch.randn(3)
    expected = scaled.model(x, shift)
    scaled(x, shift)
    for found in (scaled(x, shift), scaled(x, shift=shift), scaled(shift=shift, x=x), scaled(x, shift, 2.0)):
        torch.testing.assert_close(found, expected)
    assert scaled._usual.read((x, shift), {}) is not None
    assert scaled._usual.read((), {"shift": shift, "x": x}) is not None


def test_what_must_be_converted_takes_the_long_way_and_gives_the_same(scaled):
    x, shift = torch.randn(2, 4), torch.randn(3)
    expected = scaled(x, shift)
    turned = x.t().contiguous().t()
    for other in (turned, x.clone().requires_grad_(), nn.Parameter(x)):
        assert scaled._usual.read((other, shift), {}) is None
        torch.testing.assert_close(scaled(other, shift), expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x, shift: ((torch.randn(3, 4), shift), {}), "Shape mismatch for x"),
        (lambda x, shift: ((x.int(), shift), {}), "Data type mismatch for x"),
        (lambda x, shift: ((x,), {}), "Type mismatch for shift"),
        (lambda x, shift: ((x, shift, 3.0), {}), "Value mismatch for scale"),
    ],
)
def test_other_arguments_are_refused_as_before(scaled, arguments, words):
    x, shift = torch.randn(2, 4), torch.randn(3)
    expected = scaled(x, shift)
    args, kwargs = arguments(x, shift)
    with pytest.raises(poptorch.Error, match=words):
        scaled(*args, **kwargs)
    torch.testing.assert_close(scaled(x, shift), expected)  # and the model goes on


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x, shift: ((x, shift, 2.0, x), {}), "Too many arguments"),
        (lambda x, shift: ((x, shift), {"shift": shift}), "passed twice"),
        (lambda x, shift: ((x, shift), {"other": shift}), "Unknown arguments"),
    ],
)
def test_arguments_that_forward_does_not_have_are_refused_as_before(scaled, arguments, words):
    x, shift = torch.randn(2, 4), torch.randn(3)
    scaled(x, shift)
    args, kwargs = arguments(x, shift)
    with pytest.raises(AssertionError, match=words):
        scaled(*args, **kwargs)


def test_inputs_and_buffers_that_forward_writes_are_written_in_the_short_way():
    model = poptorch.inferenceModel(Counted())
    x, seen = torch.randn(2), torch.zeros(2)
    for number in range(1, 4):
        found, host, calls = model(x, seen)
        torch.testing.assert_close(found, x + number)
        torch.testing.assert_close(seen, torch.full((2,), float(number)))
        assert (host, calls.item()) == ("host value", number)
    assert model._usual.read((x, seen), {}) is not None
    model.destroy()


def test_results_of_one_call_are_not_those_of_the_next(scaled):
    first = scaled(torch.ones(2, 4), torch.zeros(3))
    kept = first.clone()
    scaled(torch.zeros(2, 4), torch.zeros(3))
    torch.testing.assert_close(first, kept, rtol=0, atol=0)
    with pytest.raises(poptorch.Error, match="backward"):
        first.backward()


def test_training_that_begins_after_the_first_evaluation_is_seen():
    torch.manual_seed(0)

    class WithLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x, target=None):
            found = self.linear(x)
            return found if target is None else (found, nn.functional.mse_loss(found, target))

    model, x = WithLoss(), torch.randn(2, 4)
    evaluator = poptorch.inferenceModel(model)
    before = evaluator(x)
    evaluator(x)
    trainer = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.5))
    trainer(x, torch.zeros(2, 3))
    after = evaluator(x)
    assert not torch.equal(before, after)
    trainer.destroy()
    torch.testing.assert_close(evaluator(x), model(x))
    evaluator.destroy()


def test_a_call_measures_itself_in_the_short_way(scaled):
    x, shift = torch.randn(2, 4), torch.randn(3)
    scaled(x, shift)
    scaled(x, shift)
    counters = scaled.getPerfCounters()
    (asked,), (ready,), (done,), (stored,) = (
        counters[name][0] for name in ("input", "input_complete", "output", "output_complete")
    )
    assert asked <= ready <= done <= stored


def test_a_call_enters_few_functions_of_python(scaled):
    x, shift = torch.randn(2, 4), torch.randn(3)
    for _ in range(3):
        scaled(x, shift)
    entered = count_frames(lambda: scaled(x, shift))
    assert "bind_inputs" not in entered
    assert len(entered) <= 40, entered
