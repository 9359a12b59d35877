"""What stays behind when programs are compiled and destroyed all day: nothing that grows."""

import gc
import json
import os
import sys
import weakref
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

import poptorch
from openipu.capture.lines import find_user_line
from openipu.history import CompiledProgram, History, history
from openipu.plan import Plan

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.compile_cycles import run_popart, run_poplar

pytestmark = pytest.mark.slow

WARM_UP, CYCLES = 3, 8


class Trained(nn.Module):
    """Layers with a loss."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        result = self.layers(x)
        return result, poptorch.identity_loss((result**2).mean(), "none")


class Looped(nn.Module):
    def forward(self, x):
        return poptorch.for_loop(3, lambda value: value * 2, [x])[0]


def make_options():
    return poptorch.Options().showCompilationProgressBar(False)


def train(*layers):
    model = Trained(*layers)
    executor = poptorch.trainingModel(model, make_options(), torch.optim.Adam(model.parameters()))
    executor(torch.ones(4, 8))
    executor.destroy()


def infer(model):
    executor = poptorch.inferenceModel(model, make_options())
    executor(torch.ones(4, 8))
    executor.destroy()


def forget_without_destroying():
    model = Trained(nn.Linear(8, 8))
    poptorch.trainingModel(model, make_options(), torch.optim.SGD(model.parameters(), lr=0.1))(torch.ones(4, 8))


def export_and_load(path):
    executor = poptorch.inferenceModel(nn.Linear(8, 8), make_options())
    executor.compileAndExport(str(path), torch.ones(4, 8))
    executor.destroy()
    loaded = poptorch.load(str(path))
    loaded(torch.ones(4, 8))
    loaded.destroy()


def count_objects():
    gc.collect()
    return Counter(f"{type(item).__module__}.{type(item).__qualname__}" for item in gc.get_objects())


def count_plans():
    gc.collect()
    return sum(issubclass(type(item), Plan) for item in gc.get_objects())


def find_growth(cycle):
    """Types of which every cycle leaves an object behind."""
    for _ in range(WARM_UP):
        cycle()
    before = count_objects()
    for _ in range(CYCLES):
        cycle()
    after = count_objects()
    return {name: count - before[name] for name, count in after.items() if count - before[name] >= CYCLES}


@pytest.mark.parametrize(
    "cycle",
    [
        lambda: train(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.5)),
        pytest.param(lambda: infer(nn.Linear(8, 8)), marks=pytest.mark.thorough),
        lambda: infer(Looped()),
        forget_without_destroying,
        run_popart,
        run_poplar,
    ],
    ids=["training", "inference", "loop", "forgotten", "popart", "poplar"],
)
def test_no_object_is_left_behind_by_compiling_and_destroying(cycle):
    assert find_growth(cycle) == {}


def test_no_object_is_left_behind_by_exporting_and_loading(tmp_path):
    assert find_growth(lambda: export_and_load(tmp_path / "program.poptorch")) == {}


def test_no_object_is_left_behind_by_programs_that_write_their_own_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "{}")  # goes back to what it was
    directories = iter(range(100))

    def profile_elsewhere():
        directory = tmp_path / str(next(directories))
        chosen = {"autoReport.all": "true", "autoReport.directory": str(directory)}
        os.environ["POPLAR_ENGINE_OPTIONS"] = json.dumps(chosen)
        infer(nn.Linear(8, 8))
        assert list(directory.rglob("profile.pop"))

    assert find_growth(profile_elsewhere) == {}


def test_a_destroyed_program_leaves_figures_and_no_plan():
    before = count_plans()
    entries = history.compiled.total()
    for _ in range(2):
        infer(nn.Linear(8, 3))
    assert count_plans() == before
    assert history.compiled.total() == entries + 2
    assert all(isinstance(item, CompiledProgram) for item in history.compiled)


def test_equal_programs_are_one_entry_with_a_count_and_others_entries_of_their_own(tmp_path):
    executor = poptorch.inferenceModel(nn.Linear(8, 3), make_options())
    executor.compile(torch.ones(4, 8))
    wider = poptorch.inferenceModel(nn.Linear(8, 700), make_options())
    wider.compile(torch.ones(4, 8))
    own = History()
    for plan in (executor._compiled.plan, wider._compiled.plan, executor._compiled.plan):
        own.add(plan, tmp_path, reported=False)
    assert list(own.compiled.values()) == [2, 1]
    reported = History()
    reported.add(executor._compiled.plan, tmp_path / "a", reported=True)
    reported.add(executor._compiled.plan, tmp_path / "b", reported=True)
    assert [program.report_directory for program in reported.compiled] == [tmp_path / "a", tmp_path / "b"]


def test_code_that_was_generated_is_not_kept_by_the_search_for_a_users_line():
    names = {"find_user_line": find_user_line}
    exec(compile("def look():\n    return find_user_line()", "<eval_with_key>.12345", "exec"), names)
    assert names["look"]() is not None  # a line of this file: generated code is nobody's
    code = weakref.ref(names.pop("look").__code__)
    gc.collect()
    assert code() is None
