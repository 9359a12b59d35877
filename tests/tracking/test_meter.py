"""Scalars of plan and run, for whatever draws curves."""

from __future__ import annotations

import pytest
import torch

import poptorch
from openipu.activity import ProgramFigures, is_watched
from openipu.tracking import RunMeter, list_plan_scalars

FIGURES = ProgramFigures(
    name="training",
    system="bow-2000",
    ipus=4,
    replicas=2,
    fits=False,
    needed_bytes=50_000,
    peak_bytes=3000,
    limit_bytes=2000,
    call_cycles=1850.0,
    clock_hz=1.85e9,
    samples_per_call=16,
    compile_seconds=1.5,
    profile_directory=None,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_scalars_of_a_plan_have_the_arithmetic_of_its_figures() -> None:
    scalars = list_plan_scalars(FIGURES)
    assert scalars["ipu/memory_fullest_tile_share"] == 3000 / 2000
    assert scalars["ipu/call_seconds_modelled"] == 1850.0 / 1.85e9
    assert scalars["ipu/samples_per_second_modelled"] == pytest.approx(16 / (1850.0 / 1.85e9))
    assert (scalars["ipu/count"], scalars["ipu/replicas"], scalars["ipu/fits"]) == (4.0, 2.0, 0.0)
    assert next(iter(list_plan_scalars(FIGURES, "."))) == "ipu.count"


def test_calls_are_taken_once_and_their_share_is_of_the_time_between() -> None:
    clock = Clock()
    meter = RunMeter(clock)
    meter.start()
    meter.stop()
    meter.note_run(7, "training", 0.5)
    meter.note_run(7, "training", 1.5)
    clock.now = 8.0
    assert meter.take_program(7, FIGURES) == {
        "host/calls": 2.0,
        "host/call_seconds": (0.5 + 1.5) / 2,
        "host/run_share": (0.5 + 1.5) / 8.0,
        "host/samples_per_second": 16 * 2 / (0.5 + 1.5),
    }
    assert meter.take_program(7, FIGURES) == {}
    meter.note_run(7, "training", 1.0)
    clock.now = 10.0
    assert meter.take_program(7)["host/run_share"] == 1.0 / (10.0 - 8.0)


def test_a_plain_loop_gets_the_plan_once_and_every_call() -> None:
    model = poptorch.inferenceModel(torch.nn.Linear(8, 2))
    with RunMeter() as meter:
        model(torch.ones(4, 8))
        first = meter.take()
        model(torch.ones(4, 8))
        model(torch.ones(4, 8))
        second = meter.take()
    plan = model._compiled.plan
    assert first["inference/ipu/call_cycles"] == plan.timing.call_cycles
    assert first["inference/host/calls"] == 1
    assert second["inference/host/calls"] == 2
    assert not [name for name in second if "/ipu/" in name]
    assert not is_watched()
    model(torch.ones(4, 8))
    assert meter.take() == {}
    model.destroy()
