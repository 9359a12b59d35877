"""Arguments of forward: those at their defaults are left to forward and what decorates it."""

from __future__ import annotations

import functools

import torch
from torch import nn

from openipu.graph import InputKind, OutputKind


def fill_in_by_name(forward):
    """As a library does that takes some defaults from a configuration."""

    @functools.wraps(forward)
    def call(self, *args, **kwargs):
        if kwargs.get("scale") is None:
            kwargs["scale"] = 3.0
        return forward(self, *args, **kwargs)

    return call


class Scaled(nn.Module):
    @fill_in_by_name
    def forward(self, x, mask=None, scale=None):
        return (x if mask is None else x * mask) * scale


def test_a_decorator_may_fill_in_an_argument_at_its_default(capture_inference, run_micro):
    x = torch.randn(2, 3)
    program = capture_inference(Scaled(), x, None, None)
    (result,) = run_micro(program, None, x, None, None).of(OutputKind.OUTPUT).values()
    assert torch.equal(result, x * 3)


def test_a_default_in_front_of_a_given_argument_stays(capture_inference, run_micro):
    x, factor = torch.randn(2, 3), torch.tensor(2.0)

    def scale(x, mask=None, factor=None):
        assert mask is None
        return x * factor

    program = capture_inference(scale, x, None, factor)
    (result,) = run_micro(program, None, x, None, factor).of(OutputKind.OUTPUT).values()
    assert torch.equal(result, x * 2)
    assert [entry.name for entry in program.micro.inputs_of(InputKind.INPUT)] == ["x", "factor"]
