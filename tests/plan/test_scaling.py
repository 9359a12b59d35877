"""Compiling takes work in proportion to the model: counted in function calls, which no busy machine changes."""

import itertools
import sys

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import Recompute, RunOptions
from openipu.machine import resolve_system
from openipu.plan import plan_program
from openipu.run import Executable

pytestmark = pytest.mark.slow

LAYERS = (4, 8, 16)
MOST_GROWTH = 2.2  # for twice the layers


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(16) for _ in range(layers)))

    def forward(self, x, y):
        return nn.functional.mse_loss(self.blocks(x), y)


def capture(layers):
    with torch.device("meta"):
        model = Tower(layers)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    batch = (torch.rand(4, 16), torch.rand(4, 16))
    return capture_program(model, batch, {}, training=True, optimizer=spec, name="tower")


def count_calls(function, *args):
    """How many functions, of Python or of C, are called."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return count


def check_growth(work):
    counts = {layers: count_calls(work, layers) for layers in LAYERS}
    for fewer, more in itertools.pairwise(LAYERS):
        assert counts[more] <= MOST_GROWTH * counts[fewer], counts
    assert counts[LAYERS[-1]] > counts[LAYERS[0]]  # it did count the work


@pytest.fixture(scope="module")
def programs():
    return {layers: capture(layers) for layers in LAYERS}


def test_capturing_grows_with_the_layers():
    capture(1)  # what is done once for a process
    check_growth(capture)


@pytest.mark.parametrize("recompute", [None, Recompute.STANDARD, Recompute.ALL])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_planning_grows_with_the_layers(programs, recompute, accumulation):
    options = RunOptions(training=True, recompute=recompute, gradient_accumulation=accumulation)
    system = resolve_system(None)
    plan_program(programs[LAYERS[0]], system, options)
    check_growth(lambda layers: plan_program(programs[layers], system, options))


def test_making_the_executable_grows_with_the_layers(programs):
    options = RunOptions(training=True)
    Executable(programs[LAYERS[0]], options)
    check_growth(lambda layers: Executable(programs[layers], options))
