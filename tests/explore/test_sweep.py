"""Sweeps: many points of one job, planned side by side, each once."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from functools import partial

import pytest
import torch
from torch import nn

from openipu.cli import main
from openipu.errors import OptionError
from openipu.explore.sweep import Point, Row, draw_front, find_front, list_points, parse_axis, plan_points
from openipu.jobs import PlanningJob, run_job
from openipu.machine import resolve_system

MODELS = """
import torch
from openipu.jobs import PlanningJob

def linear():
    with torch.device("meta"):
        return PlanningJob(model=torch.nn.Linear(64, 64), args=torch.empty(8, 64))
"""


def load_linear(width=64):
    with torch.device("meta"):
        return PlanningJob(model=nn.Linear(width, width), args=torch.empty(8, width))


def sweep(*axes, load=load_linear, system="bow-2000", **arguments):
    arguments.setdefault("processes", 1)
    return plan_points(load, list_points([parse_axis(axis) for axis in axes]), resolve_system(system), **arguments)


def make_row(name, memory, speed, fits=True):
    return Row(Point((("batch", name),)), "bow", fits, memory, 1000, memory, speed, 1.0, 1)


def test_all_combinations_are_planned_with_the_first_axis_slowest():
    rows = sweep("system=m2000,bow-2000", "batch=1,4")
    assert [dict(row.point.values) for row in rows] == [
        {"system": "m2000", "batch": 1},
        {"system": "m2000", "batch": 4},
        {"system": "bow-2000", "batch": 1},
        {"system": "bow-2000", "batch": 4},
    ]
    assert rows[0].system == "m2000"


def test_a_row_has_the_figures_of_a_plan_of_its_own():
    row = sweep("batch=8", "iterations=4", "proportion=0.3")[0]
    job = load_linear().with_options(device_iterations=4, available_memory_proportion=0.3)
    plan = run_job(job, "bow-2000")
    assert row.samples_per_second == plan.samples_per_second
    assert row.peak_tile_bytes == plan.peak_tile_bytes
    assert row.fits


def test_more_ipus_hold_more_copies_on_a_machine_that_has_them():
    rows = sweep("ipus=1..64", system="bow-pod4")
    assert [row.ipus for row in rows] == [1, 2, 4, 8, 16, 32, 64]
    assert [row.system for row in rows][-1] == "bow-pod64"
    speeds = [row.samples_per_second for row in rows]
    assert speeds == sorted(speeds)
    assert speeds[-1] == pytest.approx(64 * speeds[0], rel=0.01), "inference scales with copies"


def test_any_figure_of_the_chip_can_vary():
    slow, fast = sweep("system.host_bytes_per_second=1e9,2e9", "batch=4096")
    assert fast.samples_per_second == pytest.approx(2 * slow.samples_per_second), "the host link is the limit"
    small, large = sweep("target.tile_memory_bytes=20000,638976")
    assert small.limit_tile_bytes < large.limit_tile_bytes


def test_a_second_sweep_comes_from_the_cache_with_the_same_figures():
    job = partial(load_linear, 72)
    first, again = sweep("batch=1,2", load=job), sweep("batch=1,2", load=job)
    assert [row.cached for row in first + again] == [False, False, True, True]
    assert [row.samples_per_second for row in first] == [row.samples_per_second for row in again]
    assert not any(row.cached for row in sweep("batch=1,2", load=job, cache=False))


def test_a_point_that_cannot_be_planned_says_why():
    good, bad = sweep("proportion=0.5,2.0")
    assert good.problem == ""
    assert "between 0 and 1" in bad.problem
    assert not bad.fits


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("batch", "is not an axis"),
        ("batch=", "is not an axis"),
        ("clock_hz=1", "Did you mean target.clock_hz"),
        ("colour=1", "There is no axis 'colour'"),
        ("batch=many", "takes numbers"),
        ("batch=4..1", "goes up"),
        ("batch=a..b", "two whole numbers"),
    ],
)
def test_wrong_axes_are_refused_with_a_hint(words, message):
    with pytest.raises(OptionError, match=message):
        parse_axis(words)


def test_an_axis_given_twice_is_refused():
    with pytest.raises(OptionError, match="given twice"):
        list_points([parse_axis("batch=1"), parse_axis("batch=2")])


def test_the_front_holds_what_nothing_beats_in_both():
    small, fast, beaten, full = (
        make_row("small", 100, 10.0),
        make_row("fast", 300, 30.0),
        make_row("beaten", 300, 20.0),
        make_row("full", 50, 99.0, fits=False),
    )
    assert find_front([beaten, fast, full, small]) == [small, fast]


def test_the_picture_is_valid_svg_with_a_point_for_each_row():
    rows = [make_row("<a>", 900, 10.0), make_row("b", 300, 3000.0), make_row("c", 1500, 40.0, fits=False)]
    root = ElementTree.fromstring(draw_front(rows, "a & b"))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}circle")) == 3
    texts = [entry.text for entry in root.iter(f"{space}text")]
    assert "a & b" in texts
    assert "samples/s (logarithmic)" in texts
    assert ElementTree.fromstring(draw_front([], "nothing")) is not None


def test_the_command_writes_a_table_csv_json_and_a_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep_models.py").write_text(MODELS)
    words = ["sweep", "sweep_models.py:linear", "batch=1,2", "--processes", "1", "--csv", "out/rows.csv"]
    for more in (["--picture", "out/front.svg"], ["--json"]):  # called on one line: a plan knows the lines of its user
        assert main([*words, *more]) == 0
        printed = capsys.readouterr().out
        assert "samples/s" in printed or "samples_per_second" in printed
    with (tmp_path / "out/rows.csv").open() as file:
        assert [row["batch"] for row in csv.DictReader(file)] == ["1", "2"]
    assert (tmp_path / "out/front.svg").read_text().startswith("<svg")
    document = json.loads(printed)
    assert [row["cached"] for row in document["rows"]] == [True, True]
    assert main([*words, "--picture", "front.png"]) == 2


@pytest.mark.slow
def test_several_processes_give_the_same_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep_models.py").write_text(MODELS)
    from openipu.cli.targets import load_job

    load = partial(load_job, "sweep_models.py:linear")
    points = list_points([parse_axis("batch=1,2")])
    alone = plan_points(load, points, resolve_system("bow-2000"), processes=1, cache=False)
    together = plan_points(load, points, resolve_system("bow-2000"), processes=2, cache=False)
    assert [row.samples_per_second for row in together] == [row.samples_per_second for row in alone]
    assert [row.point for row in together] == list(points)
