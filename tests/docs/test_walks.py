"""The walks of `docs/architecture.md`: the functions that it names exist, and are called in that order."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

import poptorch
from openipu.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
EXAMPLES = Path(__file__).parents[2] / "examples"


def read_walk(name):
    section = PAGE.read_text(encoding="utf-8").split(f"<!-- walk: {name} -->")[1].lstrip().split("\n\n")[0]
    found = re.findall(r"^\| \d+ \| `([\w.]+)` \|", section, re.MULTILINE)
    assert len(found) >= 10
    return found


def find_code(name):
    """The code object behind a dotted name."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        while hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        return value.__code__
    raise AssertionError(f"there is no {name}")


def watch(names, act):
    """The names in the order in which they are first called while `act` runs."""
    codes = {find_code(name): name for name in names}
    called = []

    def note(frame, event, argument):
        name = codes.get(frame.f_code) if event == "call" else None
        if name is not None and name not in called:
            called.append(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return called


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 16), torch.nn.ReLU())
        self.last = torch.nn.Linear(16, 10)

    def forward(self, images, labels):
        logits = self.last(self.layers(images))
        return logits, torch.nn.functional.cross_entropy(logits, labels)


def test_a_batch_takes_the_way_that_the_page_describes():
    walk = read_walk("batch")
    model = Classifier()
    options = poptorch.Options()
    options.showCompilationProgressBar(False)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    images, labels = torch.randn(4, 1, 28, 28), torch.tensor([0, 1, 2, 3])
    assert watch(walk, lambda: trainer(images, labels)) == walk


def test_a_plan_takes_the_way_that_the_page_describes(capsys):
    walk = read_walk("plan")
    assert watch(walk, lambda: main(["plan", f"{EXAMPLES / 'plan_models.py'}:cnn"])) == walk
    assert "cnn" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["batch", "plan"])
def test_a_walk_goes_down_and_back_once(name):
    """Folders appear in the order of the layers: no hop goes back up to a folder that was left, but for the results."""
    folders = [".".join(function.split(".")[:2]) for function in read_walk(name)]
    left_and_entered = [folder for before, folder in zip(["", *folders], folders, strict=False) if folder != before]
    again = [folder for folder in left_and_entered if left_and_entered.count(folder) > 1]
    assert set(again) <= {"poptorch._calls", "openipu.cli", "openipu.plan"}, again
