"""The bar of a compilation: every step is shown when it is reached, and an error leaves no half of it."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

from openipu.errors import CaptureError
from openipu.graph import RunOptions
from openipu.session import compile_model


class Reading(nn.Module):
    def forward(self, x):
        return x if x.sum().item() > 0 else -x


def test_steps_that_follow_each_other_quickly_are_all_shown(capsys):
    compile_model(nn.Linear(4, 4), (torch.ones(2, 4),), options=RunOptions())
    shown = [int(percent) for percent in re.findall(r"(\d+)%\|", capsys.readouterr().err)]
    assert {5, 45, 89, 95, 100} <= set(shown), "89 % is where a bar that leaves out quick steps seems to stop"
    assert shown == sorted(shown)


def test_an_error_leaves_no_half_bar(capsys):
    with pytest.raises(CaptureError):
        compile_model(Reading(), (torch.ones(2, 4),), options=RunOptions())
    assert capsys.readouterr().err.split("\r")[-1].strip() == ""
