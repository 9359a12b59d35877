"""Loops, branches and functions of the host have no gradient: what would be trained through them is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import call_host, capture_branches, capture_loop
from openipu.errors import CaptureError

CALLS = {
    "A loop": lambda layer, x: capture_loop(3, lambda y: layer(y), [x])[0],
    "A branch": lambda layer, x: capture_branches(x.sum() > 0, lambda y: layer(y), [x], lambda y: y * 2, [x])[0],
    "The host function double": lambda layer, x: call_host(lambda y: y * 2, [layer(x)], "double")[0],
}


class Net(nn.Module):
    def __init__(self, call, guarded: bool = False) -> None:
        super().__init__()
        self.inner, self.outer, self.call, self.guarded = nn.Linear(2, 2), nn.Linear(2, 2), call, guarded

    def forward(self, x):
        with torch.set_grad_enabled(not self.guarded and torch.is_grad_enabled()):
            y = self.call(self.inner, x)
        return nn.functional.mse_loss(self.outer(y), x)


@pytest.mark.parametrize("what", CALLS)
def test_weights_inside_would_not_be_trained_and_the_line_is_named(what, capture_training):
    with pytest.raises(CaptureError, match=rf"{what}.* has no gradient.*\n.*test_lost_gradients\.py:1\d in"):
        capture_training(Net(CALLS[what]), torch.ones(1, 2))


@pytest.mark.parametrize("what", CALLS)
def test_under_no_grad_they_are_part_of_a_training_graph(what, capture_training):
    program = capture_training(Net(CALLS[what], guarded=True), torch.ones(1, 2))
    assert set(program.unused_parameters) == {"inner.weight", "inner.bias"}


@pytest.mark.parametrize("what", CALLS)
def test_inference_is_free_to_use_them(what, capture_inference, run_micro):
    model = Net(CALLS[what])
    run_micro(capture_inference(model, torch.ones(1, 2)), model, torch.ones(1, 2))
