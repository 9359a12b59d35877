"""`openipu garden`: its four verbs as a user types them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

import openipu_garden.commands.running as running
from openipu.cli import main
from openipu.report import read_profile
from openipu_garden import find_family, list_families
from openipu_garden.family import FrontEnd, Goal


@pytest.fixture
def call(capsys):
    """Call the command line in this process: exit code, standard output, standard error."""

    def call_main(*words):
        try:
            code = main(["garden", *words])
        except SystemExit as leave:
            code = leave.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call_main


class ShortCourse:
    """A course of two calls that measures what it is told to."""

    calls = 2

    def __init__(self, quality):
        self.quality = quality
        self.real = find_family("bert-base").begin()

    def plan(self):
        return self.real.plan()

    def advance(self):
        return 1.0

    def measure(self):
        return self.quality

    def close(self):
        self.real.close()


def make_family(quality):
    goal = Goal("accuracy", bar=0.9, guess=0.1)
    return dataclasses.replace(find_family("bert-base"), goal=goal, begin=lambda: ShortCourse(quality))


def test_the_list_names_every_family_with_weights_and_rates(call):
    code, out, _ = call("list", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert code == 0
    assert len(entries) == len(list_families())
    assert entries["resnet-50"]["weights"] == 25_557_032
    assert {figure["id"]: figure["value"] for figure in entries["resnet-50"]["published"]}["VEN-049"] == 37061
    code, out, _ = call("list")
    assert code == 0
    assert "25.56 M" in out
    assert "37,061 items/s on Bow Pod16" in out.replace("\n", " ")


def test_an_unknown_name_gets_the_near_ones(call):
    code, out, err = call("plan", "resnet50x")
    assert (code, out) == (2, "")
    assert "The garden has no 'resnet50x'. Did you mean 'resnet-50'?" in err
    assert "'bert-base' or 'bert-large'" in call("run", "bert")[2]


def test_run_needs_names_or_all_but_not_both(call):
    assert call("run")[0] == 2
    code, _, err = call("run", "--all", "resnet-50")
    assert code == 2
    assert "not both" in err


def test_a_quality_that_is_reached_is_said_with_its_goal(call, monkeypatch):
    monkeypatch.setattr(running, "find_family", lambda name: make_family(0.95))
    code, out, err = call("run", "any")
    assert (code, err) == (0, "")
    assert "0.95" in out
    assert "≥ 0.9" in out
    assert "reached" in out
    code, out, _ = call("run", "any", "--json")
    (entry,) = json.loads(out)
    assert (code, entry["reached"], entry["quality"], entry["goal"]["bar"]) == (0, True, 0.95, 0.9)


def test_a_quality_that_is_missed_is_an_error_with_exit_code_one(call, monkeypatch):
    monkeypatch.setattr(running, "find_family", lambda name: make_family(0.5))
    code, out, err = call("run", "any")
    assert code == 1
    assert "missed" in out
    assert "bert-base reached accuracy 0.5, but accuracy ≥ 0.9 was expected" in err


def test_a_framework_that_is_not_installed_is_named_with_its_extra(call, monkeypatch):
    def begin():
        raise ModuleNotFoundError("No module named 'keras'", name="keras")

    family = dataclasses.replace(find_family("bert-base"), front_end=FrontEnd.KERAS, begin=begin)
    monkeypatch.setattr(running, "find_family", lambda name: family)
    code, out, err = call("run", "any")
    assert (code, out) == (2, "")
    assert "needs keras, which is not installed" in err
    assert "[tensorflow]" in err


def test_with_all_a_framework_that_is_not_installed_leaves_its_families_out(call, monkeypatch):
    def begin():
        raise ModuleNotFoundError("No module named 'keras'", name="keras")

    absent = dataclasses.replace(find_family("unet-medical"), begin=begin)
    monkeypatch.setattr(running, "list_families", lambda: (make_family(0.95), absent))
    code, out, err = call("run", "--all", "--json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(out)] == ["bert-base"]
    assert "left out: U-Net, medical in the garden needs keras" in err


def test_a_plan_stands_beside_what_was_published(call):
    code, out, _ = call("plan", "resnet-50", "--system", "c600", "--json")
    document = json.loads(out)
    assert code == 0
    by_id = {row["id"]: row for row in document["rows"]}
    row = by_id["POPRT-007"]
    assert row["published"] == 3529
    assert row["low"] < row["predicted"] < row["high"]
    assert row["system"] == "c600"
    code, out, _ = call("plan", "resnet-50", "--system", "c600")
    assert code == 0
    assert "3,529" in out
    assert "25,557,032 weights" in out
    assert "%" in out


def test_a_report_is_a_profile_and_a_page(call, tmp_path):
    code, out, _ = call("report", "bert-base", "--small", "-o", str(tmp_path))
    assert code == 0
    folder = tmp_path / "bert-base"
    assert str(folder / "report.html") in out.replace("\n", "")
    assert read_profile(folder / "profile.pop").name


def test_importing_openipu_does_not_load_the_garden():
    program = "import sys, openipu, openipu.cli; sys.exit('openipu_garden' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, check=False).returncode == 0
