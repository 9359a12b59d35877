"""`openipu report` on a folder of many: the list of its reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from openipu.jobs import PlanningJob, run_job
from openipu.report import build_profile, read_profile, write_profile
from openipu.report.listing import list_reports, page


@pytest.fixture(scope="module")
def profile():
    with torch.device("meta"):
        model = torch.nn.Linear(32, 16)
    return build_profile(run_job(PlanningJob(model=model, args=(torch.empty(4, 32),), name="small"), "c600"))


@pytest.fixture
def folder(profile, tmp_path: Path) -> Path:
    write_profile(replace(profile, created="2026-01-31T12:34:56+00:00"), tmp_path / "first" / "small")
    write_profile(replace(profile, name="<b>&{{rows}}", created="2026-02-01T00:00:00+00:00"), tmp_path / "second #1?")
    return tmp_path


def test_the_list_is_newest_first_with_the_figures_of_each_profile(folder, profile):
    newest, oldest = list_reports(folder)
    assert (newest.place, oldest.place) == ("second #1?", str(Path("first", "small")))
    line = oldest.headline
    fit, timing = profile.fit, profile.timing
    assert (line.name, line.system, line.fits) == ("small", "c600", True)
    assert (line.peak_bytes, line.limit_bytes) == (fit.peak_bytes, fit.limit_bytes)
    assert line.call_cycles == timing.call_cycles
    assert line.samples_per_second == pytest.approx(timing.samples_per_second)


def test_a_folder_of_many_becomes_a_table_and_a_page_whose_links_lead_to_reports(call, folder):
    code, out, _ = call("report", str(folder))
    assert code == 0
    assert out.splitlines()[-1] == f"list of 2 reports: {folder}/reports.html"
    assert "2026-01-31 12:34" in out
    text = (folder / "reports.html").read_text()
    assert '<a href="first/small/report.html">small</a>' in text
    assert '<a href="second%20%231%3F/report.html">&lt;b&gt;&amp;{{rows}}</a>' in text, "names are text, never markup"
    assert (folder / "first/small/report.html").is_file()
    assert (folder / "second #1?/report.html").is_file()


def test_text_and_json_write_nothing(call, folder):
    code, out, _ = call("report", str(folder), "--text")
    assert (code, "second #1?" in out) == (0, True)
    newest, oldest = json.loads(call("report", str(folder), "--json")[1])
    assert (newest["name"], oldest["system"], oldest["fits"], oldest["report"]) == ("<b>&{{rows}}", "c600", True, None)
    assert not list(folder.rglob("*.html"))


def test_a_damaged_profile_is_a_line_that_says_why(call, folder):
    file = folder / "first/small/profile.pop"
    file.write_bytes(file.read_bytes()[:2000])
    code, out, _ = call("report", str(folder))
    assert (code, "cannot be read" in out) == (0, True)
    assert [entry.headline is None for entry in list_reports(folder)] == [False, True]
    assert "is damaged" in (folder / "reports.html").read_text()


def test_no_more_pages_are_written_than_the_limit_and_the_rest_is_said(call, folder, monkeypatch):
    monkeypatch.setattr(page, "MOST_NEW_PAGES", 1)
    _, out, _ = call("report", str(folder))
    assert "Without a page yet: 1 older." in out
    assert (folder / "second #1?/report.html").is_file()
    assert not (folder / "first/small/report.html").exists()


def test_hidden_folders_and_links_to_elsewhere_are_not_followed(folder, profile, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write_profile(profile, elsewhere / "other")
    (folder / "link").symlink_to(elsewhere)
    write_profile(profile, folder / ".hidden")
    assert len(list_reports(folder)) == 2
    assert read_profile(folder / "first/small").name == "small"
