"""Inputs that arrive while a call runs: the same results, no sooner than they are needed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.errors import InputError
from openipu.graph import RunOptions
from openipu.run import Executable


class Recorded:
    """A source over a tensor, which remembers what it was asked."""

    def __init__(self, *tensors: torch.Tensor, batch: int) -> None:
        self._tensors, self._batch = tensors, batch
        self.asked: list[tuple[int, int]] = []

    def take(self, first: int, count: int) -> list[torch.Tensor]:
        self.asked.append((first, count))
        return [tensor[first * self._batch : (first + count) * self._batch] for tensor in self._tensors]


def make_executable(**settings):
    model = nn.Linear(3, 2)
    program = capture_program(model, (torch.zeros(2, 3),), {}, training=False, optimizer=None, name="linear")
    executable = Executable(program, RunOptions(device_iterations=4, **settings))
    executable.load_weights(dict(model.named_parameters()), {})
    return executable


@pytest.mark.parametrize("settings", [{"batching": False}, {}])
def test_a_stream_gives_what_a_call_gives(settings):
    executable = make_executable(**settings)
    data = torch.randn(8, 3)
    source = Recorded(data, batch=2)
    assert torch.equal(executable.stream(source).outputs[0], executable.run([data]).outputs[0])
    ends = [first + count for first, count in source.asked]
    assert [first for first, _ in source.asked] == [0, *ends[:-1]]
    assert ends[-1] == 4


def test_a_stream_is_asked_for_one_micro_batch_after_the_other():
    source = Recorded(torch.randn(8, 3), batch=2)
    make_executable(batching=False).stream(source)
    assert source.asked == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_stream_of_the_wrong_shape_is_refused():
    with pytest.raises(InputError, match=r"has shape \(2, 4\)"):
        make_executable(batching=False).stream(Recorded(torch.randn(8, 4), batch=2))


def test_a_stream_without_enough_inputs_is_refused():
    with pytest.raises(InputError, match="its source gave 0"):
        make_executable(batching=False).stream(Recorded(batch=2))
