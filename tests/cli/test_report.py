"""`openipu report`: a written profile as a web page, text or JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from openipu.jobs import PlanningJob, run_job
from openipu.report import write_profile


@pytest.fixture(scope="module")
def plan():
    with torch.device("meta"):
        model = torch.nn.Linear(32, 16)
    return run_job(PlanningJob(model=model, args=(torch.empty(4, 32),), name="small"), "c600")


@pytest.fixture
def profiled(plan, tmp_path: Path) -> Path:
    write_profile(plan, tmp_path / "small")
    return tmp_path / "small"


def test_the_page_is_written_beside_the_profile_and_named(call, profiled):
    code, out, _ = call("report", str(profiled))
    assert code == 0
    assert out == f"report of small: {profiled}/report.html\n"
    assert (profiled / "report.html").stat().st_size > 1000


def test_the_page_can_go_elsewhere(call, profiled, tmp_path):
    page = tmp_path / "elsewhere.html"
    assert call("report", str(profiled / "profile.pop"), "--html", str(page))[0] == 0
    assert page.is_file()
    assert not (profiled / "report.html").exists()


def test_text_and_json_write_no_page(call, profiled, plan):
    code, text, _ = call("report", str(profiled), "--text")
    assert (code, text.splitlines()[0].startswith("small")) == (0, True)
    document = json.loads(call("report", str(profiled), "--json")[1])
    assert document["modelled"] is True
    assert document["fit"]["peak_bytes"] == plan.fit.peak_bytes
    assert not (profiled / "report.html").exists()


def test_a_directory_with_one_program_means_that_program(call, profiled):
    assert call("report", str(profiled.parent), "--text")[0] == 0


def test_conditions_on_a_directory_with_several_programs_ask_for_one(call, profiled, plan):
    write_profile(plan, profiled.parent / "other")
    code, _, err = call("report", str(profiled.parent), "--check", "fits")
    assert code == 2
    assert str(profiled.parent / "other") in err


@pytest.mark.parametrize("words", [["absent"], ["absent/profile.pop"], ["."]])
def test_no_profile_is_an_error_with_the_path(call, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = call("report", *words)
    assert code == 2
    assert "There is no profile at" in err


def test_a_file_that_is_no_profile_is_an_error(call, tmp_path):
    (tmp_path / "profile.pop").write_text("not a database")
    code, _, err = call("report", str(tmp_path))
    assert code == 2
    assert "profile.pop" in err


def test_open_starts_the_browser_on_the_page(call, profiled, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert call("report", str(profiled), "--open")[0] == 0
    assert opened == [(profiled / "report.html").resolve().as_uri()]


def test_no_browser_says_what_to_do(call, profiled, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    code, _, err = call("report", str(profiled), "--open")
    assert code == 2
    assert "Open" in err
