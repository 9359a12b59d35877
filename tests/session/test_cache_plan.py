"""Plans in the executable cache: figures at once, details when somebody asks."""

import dataclasses
import logging

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer
from openipu.errors import ArchiveError
from openipu.graph import NOTE, EngineMode, RunOptions
from openipu.graph.fingerprint import fingerprint_origin, fingerprint_placement, fingerprint_program
from openipu.machine import resolve_system
from openipu.plan import plan_program
from openipu.plan.deferred import FIGURES_VERSION, DeferredPlan, dump_figures, load_figures
from openipu.report import build_profile, summarise
from openipu.session import cache as session_cache
from openipu.session.cache import PLAN_PART, key_program, plan_once
from openipu.store import open_store

SYSTEM = resolve_system("bow-2000")
OPTIONS = RunOptions(training=True)


class Regression(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return nn.functional.mse_loss(self.layers(x), x[:, :1])


def make_program(width=16):
    model = Regression(width)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer = describe_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), names)
    return capture_program(model, (torch.ones(4, 8),), {}, training=True, optimizer=optimizer, name="model")


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


@pytest.fixture
def plannings(monkeypatch):
    """Names of programs, one for each time that something is planned."""
    planned = []

    def count(program, *args, **kwargs):
        planned.append(program.name)
        return plan_program(program, *args, **kwargs)

    monkeypatch.setattr(session_cache, "plan_program", count)
    return planned


def plan(store, program, options=OPTIONS, system=SYSTEM):
    return plan_once(store, key_program(program, system, options), program, system, options)


def test_a_warm_start_does_not_plan_again(store, plannings):
    first = plan(store, make_program())
    second = plan(store, make_program())  # captured anew, with other weights
    assert plannings == ["model"]
    assert isinstance(second, DeferredPlan)
    for name in ("name", "micro_batch", "fit", "timing", "guessed_ops", "passes", "warnings", "pipeline", "ipus"):
        assert getattr(first, name) == getattr(second, name), name
    assert (second.system, second.options) == (SYSTEM, OPTIONS)


def test_details_are_planned_once_when_they_are_asked_for(store, plannings):
    first = plan(store, make_program())
    second = plan(store, make_program())
    assert not second.planned
    assert second.ops == first.ops
    assert second.steps == first.steps
    assert second.variables == first.variables
    assert second.planned
    assert plannings == ["model", "model"]


def test_a_report_of_a_deferred_plan_is_that_of_the_plan(store):
    first, second = (build_profile(plan(store, make_program())) for _ in range(2))
    assert first.ops == second.ops
    assert first.fit == second.fit
    assert first.timing == second.timing


def test_a_deferred_plan_is_a_plan_for_other_engines_too(store, plannings):
    plan(store, make_program())
    deferred = plan(store, make_program())
    kernels = dataclasses.replace(OPTIONS, engine=EngineMode.KERNELS)
    other = deferred.with_options(kernels)
    assert other.options is kernels
    assert other.timing == deferred.timing
    assert plannings == ["model"]
    with pytest.raises(AttributeError, match="nothing"):
        _ = deferred.nothing


def test_keys_tell_programs_options_and_machines_apart():
    program = make_program()
    key = key_program(program, SYSTEM, OPTIONS)
    assert key == key_program(make_program(), SYSTEM, OPTIONS)
    slower = dataclasses.replace(SYSTEM, target=dataclasses.replace(SYSTEM.target, clock_hz=1e9))  # the same name
    others = {
        key_program(make_program(width=32), SYSTEM, OPTIONS),
        key_program(program, resolve_system("pod16"), OPTIONS),
        key_program(program, slower, OPTIONS),
        key_program(program, SYSTEM, dataclasses.replace(OPTIONS, gradient_accumulation=2)),
        key_program(program, SYSTEM, dataclasses.replace(OPTIONS, half_partials=True)),
    }
    assert len(others | {key}) == 6


def test_keys_do_not_depend_on_what_is_decided_when_a_program_runs():
    program = make_program()
    options = dataclasses.replace(OPTIONS, engine=EngineMode.KERNELS, random_seed=5)
    assert key_program(program, SYSTEM, options) == key_program(program, SYSTEM, OPTIONS)


def test_the_placement_of_a_node_is_part_of_the_key():
    program, moved = make_program(), make_program()
    node = next(node for node in moved.micro.module.graph.nodes if node.op == "call_function")
    node.meta[NOTE] = dataclasses.replace(node.meta[NOTE], ipu=1, stage=1)
    assert fingerprint_program(program) == fingerprint_program(moved)
    assert fingerprint_placement(program) != fingerprint_placement(moved)
    assert key_program(program, SYSTEM, OPTIONS) != key_program(moved, SYSTEM, OPTIONS)


def test_a_program_whose_lines_have_moved_is_planned_again_in_the_same_entry(store, plannings):
    plan(store, make_program())
    moved = make_program()
    node = next(node for node in moved.micro.module.graph.nodes if node.op == "call_function")
    line = dataclasses.replace(node.meta[NOTE].line, line=node.meta[NOTE].line.line + 1)
    node.meta[NOTE] = dataclasses.replace(node.meta[NOTE], line=line)
    assert fingerprint_origin(moved) != fingerprint_origin(make_program())
    plan(store, moved)
    plan(store, moved)
    assert plannings == ["model", "model"]
    assert len(store.list()) == 1


def test_quick_plans_may_stay_out_of_the_store(store, plannings):
    program = make_program()
    key = key_program(program, SYSTEM, OPTIONS)
    for _ in range(2):
        plan_once(store, key, program, SYSTEM, OPTIONS, least_seconds=60)
    assert plannings == ["model", "model"]
    assert store.list() == ()


def test_a_plan_that_cannot_be_read_is_made_again_with_a_warning(store, plannings, caplog):
    program = make_program()
    key = key_program(program, SYSTEM, OPTIONS)
    for content in (b"", b"no line", fingerprint_origin(program).encode() + b"\n{}"):
        store.write(key, {PLAN_PART: content}).close()
        with caplog.at_level(logging.WARNING, logger="openipu"):
            assert plan(store, program).timing.call_cycles > 0
        assert "made again" in caplog.text
    assert plannings == ["model"] * 3
    plan(store, program)
    assert plannings == ["model"] * 3


def test_cycles_by_kind_are_those_of_the_report_and_are_stored_with_the_figures():
    made = plan_program(make_program(), SYSTEM, OPTIONS)
    shown = {entry.name: entry.call_cycles for entry in summarise(made).kinds}
    assert made.cycles_by_kind == pytest.approx(shown)

    def refuse():
        raise AssertionError("nothing is to be planned again")

    assert load_figures(dump_figures(made), SYSTEM, OPTIONS, refuse).cycles_by_kind == made.cycles_by_kind


def test_figures_of_another_version_are_refused():
    made = plan_program(make_program(), SYSTEM, OPTIONS)
    content = dump_figures(made)
    assert len(content) < 10_000
    assert load_figures(content, SYSTEM, OPTIONS, lambda: made).fit == made.fit
    other = content.replace(f'"version":{FIGURES_VERSION}'.encode(), f'"version":{FIGURES_VERSION + 1}'.encode())
    for damaged in (b"{}", b"[]", b"x", content[:-5], other):
        with pytest.raises(ArchiveError):
            load_figures(damaged, SYSTEM, OPTIONS, lambda: made)


def test_a_directory_has_one_entry_for_each_distinct_program(tmp_path):
    store = open_store(tmp_path)
    for width in (16, 16, 32, 32):
        program = make_program(width)
        plan_once(store, key_program(program, SYSTEM, OPTIONS), program, SYSTEM, OPTIONS)
    assert len(list(tmp_path.iterdir())) == 2
    descriptions = [entry.description for entry in open_store(tmp_path).list()]
    assert {described["system"] for described in descriptions} == {"bow-2000"}
    assert all(described["training"] for described in descriptions)
