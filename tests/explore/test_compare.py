"""Two plans side by side: the terms add up to the difference, exactly."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest
import torch
from torch import nn

from openipu.capture import set_block
from openipu.explore.compare import Grouping, compare_plans, sum_call, sum_peak
from openipu.explore.compare.difference import CLOCK
from openipu.graph import OutputMode, RunOptions, Strategy
from openipu.jobs import PlanningJob, run_job
from openipu.report import build_profile, read_profile, write_profile


class Stages(nn.Module):
    def __init__(self, width=64, stages=1):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.stages = stages

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            stage = index * self.stages // 4
            set_block(f"stage {stage}", stage, stage)
            x = torch.tanh(layer(x))
        return nn.functional.mse_loss(x, torch.zeros_like(x))


def plan(width=64, stages=1, batch=16, system="bow-pod16", training=True, **options):
    with torch.device("meta"):
        model = Stages(width, stages)
    optimizer = torch.optim.Adam(model.parameters()) if training else None
    run = RunOptions(training=training, **options)
    job = PlanningJob(model=model, args=torch.empty(batch, width), training=training, optimizer=optimizer, options=run)
    return run_job(job, system)


KINDS = {
    "one IPU": {},
    "accumulated": {"gradient_accumulation": 4},
    "replicas": {"replicas": 4, "gradient_accumulation": 2},
    "iterations": {"device_iterations": 3},
    "pipeline": {"stages": 4, "gradient_accumulation": 16},
    "short pipeline": {"stages": 4, "gradient_accumulation": 3},
    "sharded": {"stages": 4, "strategy": Strategy.SHARDED},
    "inference": {"training": False, "device_iterations": 8},
    "inference in a pipeline": {"training": False, "stages": 4, "device_iterations": 8},
    "final results only": {"training": False, "device_iterations": 4, "output_mode": OutputMode.FINAL},
}


@pytest.fixture(scope="module")
def plans():
    return {name: plan(**options) for name, options in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("grouping", Grouping)
def test_the_contributions_of_steps_add_up_to_the_call(plans, name, grouping):
    profile = build_profile(plans[name])
    groups = sum_call(profile, grouping)
    assert sum(groups.values()) == Fraction(profile.timing.call_cycles)
    rest = abs(groups.get("overlap and rounding", Fraction()))
    assert rest <= Fraction(profile.timing.call_cycles) / 10**9, "all of it is named but the last bits of a float"


@pytest.mark.parametrize("name", KINDS)
def test_what_lies_on_the_fullest_tile_adds_up_to_its_peak(plans, name):
    profile = build_profile(plans[name])
    parts = sum_peak(profile)
    assert sum(parts.values()) == profile.fit.peak_bytes
    assert "overlap and rounding" not in parts


@pytest.mark.parametrize(
    ("before", "after"), [("one IPU", "pipeline"), ("inference", "replicas"), ("pipeline", "sharded")]
)
def test_the_terms_add_up_to_the_difference_exactly(plans, before, after):
    found = compare_plans(plans[before], plans[after])
    for change in (found.time, found.memory):
        assert sum(term.difference for term in change.terms) == change.difference
    assert float(found.time.before) == pytest.approx(1 / plans[before].samples_per_second)
    assert float(found.time.after) == pytest.approx(1 / plans[after].samples_per_second)
    assert found.memory.difference == plans[after].peak_tile_bytes - plans[before].peak_tile_bytes


def test_a_faster_clock_is_a_term_of_its_own():
    slow = plan(batch=64)
    target = dataclasses.replace(slow.system.target, clock_hz=slow.system.target.clock_hz * 2)
    found = compare_plans(slow, plan(batch=64, system=dataclasses.replace(slow.system, target=target)))
    clock = next(term for term in found.time.terms if term.name == CLOCK)
    assert clock.difference < 0
    assert sum(term.difference for term in found.time.terms) == found.time.difference
    assert found.figures["target.clock_hz"][1] == 2 * found.figures["target.clock_hz"][0]


def test_a_plan_compared_with_itself_has_no_difference(plans):
    found = compare_plans(plans["pipeline"], plans["pipeline"])
    assert found.speedup == 1.0
    assert all(term.difference == 0 for term in (*found.time.terms, *found.memory.terms))
    assert not found.options
    assert not found.figures


def test_wider_layers_show_in_matrix_products_and_parameters(plans):
    found = compare_plans(plans["one IPU"], plan(width=256))
    assert "matmul" in " ".join(term.name for term in found.time.terms[:3])
    parameters = next(term for term in found.memory.terms if term.name == "parameter")
    assert parameters.difference > 0


def test_a_profile_from_a_file_compares_as_its_plan_does(plans, tmp_path):
    write_profile(plans["pipeline"], tmp_path)
    found = compare_plans(plans["pipeline"], read_profile(tmp_path))
    assert found.time.difference == 0
    assert found.memory.difference == 0
