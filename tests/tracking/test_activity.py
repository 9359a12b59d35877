"""What programs tell while they compile and run: every front end by the one door, Poplar by its engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

import poptorch
from openipu.activity import ProgramFigures, Watcher, add_watcher, remove_watcher
from poplar import FLOAT, Engine, Graph, IPUModel
from poplar.program import Copy, Sequence


@dataclass
class Notes(Watcher):
    percents: list[int] = field(default_factory=list)
    finished: dict[int, ProgramFigures] = field(default_factory=dict)  # by executable
    failed: list[str] = field(default_factory=list)
    runs: list[tuple[int, str]] = field(default_factory=list)

    def advance(self, compilation: int, title: str, percent: int) -> None:
        self.percents.append(percent)

    def finish(self, compilation: int, executable: int, figures: ProgramFigures) -> None:
        self.finished[executable] = figures

    def fail(self, compilation: int, title: str, error: str) -> None:
        self.failed.append(error)

    def note_run(self, executable: int, name: str, seconds: float) -> None:
        assert seconds > 0
        self.runs.append((executable, name))


@pytest.fixture
def notes() -> Iterator[Notes]:
    made = Notes()
    add_watcher(made)
    yield made
    remove_watcher(made)


def test_a_program_tells_its_percentages_its_figures_and_its_calls(notes: Notes) -> None:
    model = poptorch.inferenceModel(torch.nn.Linear(8, 2))
    model(torch.ones(4, 8))
    model(torch.ones(4, 8))
    assert (notes.percents[0], notes.percents[-1]) == (0, 100)
    assert notes.percents == sorted(notes.percents)
    ((number, figures),) = notes.finished.items()
    plan = model._compiled.plan
    assert (figures.name, figures.call_cycles) == ("inference", plan.timing.call_cycles)
    assert (figures.peak_bytes, figures.needed_bytes) == (plan.fit.peak_bytes, plan.fit.needed_bytes)
    assert figures.samples_per_second == pytest.approx(plan.timing.samples_per_second)
    assert notes.runs == [(number, "inference")] * 2
    model.destroy()


def test_two_programs_of_one_name_have_numbers_of_their_own(notes: Notes) -> None:
    models = [poptorch.inferenceModel(torch.nn.Linear(8, width)) for width in (2, 3)]
    for model in models:
        model(torch.ones(4, 8))
        model.destroy()
    assert len(notes.finished) == 2
    assert [number for number, _ in notes.runs] == list(notes.finished)


def test_a_compilation_that_fails_is_told_and_its_error_goes_on(notes: Notes) -> None:
    class Deciding(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum().item() > 0 else -x

    model = poptorch.inferenceModel(Deciding())
    with pytest.raises(poptorch.Error):
        model(torch.ones(4))
    assert len(notes.failed) == 1
    assert not notes.finished


def test_programs_placed_by_hand_tell_their_calls(notes: Notes) -> None:
    device = IPUModel("ipu2").createDevice()
    graph = Graph(device.getTarget())
    first, second = (graph.addVariable(FLOAT, [4], name) for name in ("first", "second"))
    for variable in (first, second):
        graph.setTileMapping(variable, 0)
    graph.createHostWrite("first", first)
    graph.createHostRead("second", second)
    engine = Engine(graph, [Sequence([Copy(first, second)])])
    engine.load(device)
    engine.writeTensor("first", np.arange(4, dtype=np.float32))
    engine.run(0)
    assert engine.readTensor("second").tolist() == [0, 1, 2, 3]
    ((_, name),) = notes.runs
    assert name.endswith("program 0")
