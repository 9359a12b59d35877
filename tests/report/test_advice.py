"""A program that does not fit: its report has every lever that was planned, and no advice that contradicts them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import torch
from advice_factory import NOT_TRIED, make_advice, make_oversized_profile
from plan_factory import PlanBuilder

from openipu.cli.main import main
from openipu.errors import ProfileError
from openipu.explore.levers import FrontEnd, advise_job, record_advice, word_settings
from openipu.explore.levers.texts import describe_untried
from openipu.graph import Phase, RunOptions
from openipu.jobs import PlanningJob, run_job
from openipu.ops.cost import Family
from openipu.plan.types import VariableKind
from openipu.report import Finding, build_profile, find_insights, read_profile, render_advice, to_json, write_profile
from openipu.report.insights.memory import REMEDIES

TARGET = """
import torch
from openipu.jobs import PlanningJob

def job():
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(1024, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 1024))
        return PlanningJob(model=model, args=(torch.empty(16384, 1024),))
"""


def test_a_profile_keeps_its_advice_through_a_file(tmp_path: Path) -> None:
    profile = make_oversized_profile(make_advice())
    assert read_profile(write_profile(profile, tmp_path)).advice == profile.advice
    without = make_oversized_profile(None)
    assert read_profile(write_profile(without, tmp_path)).advice is None


def test_the_first_finding_says_what_the_levers_say_and_no_rule_of_thumb() -> None:
    finding = find_insights(make_oversized_profile(make_advice()))[0]
    assert finding.rule == "fullest-tile"
    assert finding.remedy == 'It fits with recomputation, 25 % slower: poptorch.set("recomputation")'
    nothing = find_insights(make_oversized_profile(make_advice(fits=False)))[0].remedy
    assert nothing == (
        "Nothing that was planned makes it fit. recomputation comes closest, with 700 KiB on the fullest tile. "
        f"{NOT_TRIED} Choose a larger system, or a smaller model."
    )
    for remedy in REMEDIES.values():
        assert remedy not in finding.remedy + nothing


def test_without_levers_the_finding_says_that_none_was_planned() -> None:
    finding = find_insights(make_oversized_profile(None))[0]
    assert finding.remedy.startswith(REMEDIES["activation"])
    assert "No lever was planned again; `openipu plan --profile` does" in finding.remedy


def test_advice_that_takes_memory_waits_until_the_program_fits() -> None:
    def find_exchange(width: int) -> Finding:
        build = PlanBuilder("moving", RunOptions(), 4)
        build.add_op("aten.cat.default", Family.LAYOUT, Phase.FORWARD, "m", cycles=100, moved_bytes=1472 * 4 * 90_000)
        build.add_variable("weight", VariableKind.PARAMETER, (1472, width))
        found = find_insights(build_profile(build.build()))
        return next(finding for finding in found if finding.rule == "exchange-bound")

    assert find_exchange(1 << 10).remedy.startswith("A larger micro-batch")
    assert find_exchange(1 << 19).remedy.startswith("Make it fit first: some of this takes more memory. A larger")


def test_levers_leave_as_json_and_as_text() -> None:
    profile = make_oversized_profile(make_advice())
    advice = to_json(profile)["advice"]
    assert [lever["lever"] for lever in advice["levers"]] == [
        "recomputation",
        "optimizer state off chip",
        "half partials",
    ]
    assert advice["not_tried"] == NOT_TRIED
    assert advice["levers"][0]["saved_bytes"] == 400 * 1024 * 1472
    assert [lever["change"] for lever in advice["levers"]] == ["25 % slower", "53 x slower", "without an end"]
    assert to_json(make_oversized_profile(None))["advice"] is None
    text = render_advice(make_advice())
    assert "recomputation: fits, 500 KiB on the fullest tile (400 KiB less), +1,250 IPU cycles a sample" in text
    assert "half partials: does not fit, 910 KiB on the fullest tile (10.0 KiB more)" in text
    assert NOT_TRIED in text


def test_a_record_has_the_figures_of_the_advice_in_the_words_of_every_front_end() -> None:
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(1024, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 1024))
        job = PlanningJob(model=model, args=(torch.empty(16384, 1024),))
    plan = run_job(job, "bow-2000")
    assert not plan.fit.fits
    advice = advise_job(job, plan)
    record = record_advice(advice, FrontEnd.OPTIMUM)
    assert record.front_end == "optimum.graphcore"
    assert record.not_tried == describe_untried(advice)
    assert len(record.levers) == len(advice.levers) > 2
    for lever, kept in zip(advice.levers, record.levers, strict=True):
        assert (kept.title, kept.fits, kept.peak_tile_bytes) == (lever.title, lever.fits, lever.plan.fit.peak_bytes)
        assert kept.saved_tile_bytes == plan.fit.peak_bytes - lever.plan.fit.peak_bytes
        assert kept.paid_ipu_cycles_per_sample == lever.paid_cycles
        assert kept.words == {str(one): word_settings(lever.settings, one, lever.plan) for one in FrontEnd}


def test_the_command_line_writes_what_it_prints_into_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models.py").write_text(TARGET)
    target = f"{tmp_path / 'models.py'}:job"
    assert main(["plan", target, "--profile", str(tmp_path / "out"), "--advice-plans", "3"]) == 0
    printed = capsys.readouterr().out
    advice = read_profile(tmp_path / "out" / "job").advice
    assert advice is not None
    assert advice.not_tried.startswith("Not tried after 3 plans: ")
    for lever in advice.levers:
        assert lever.title in printed
    assert main(["report", str(tmp_path / "out" / "job"), "--text"]) == 0
    assert "Planned again with" in capsys.readouterr().out
    assert main(["plan", target, "--profile", str(tmp_path / "none"), "--advice-plans", "0"]) == 0
    assert read_profile(tmp_path / "none" / "job").advice is None


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE levers SET fits = 2",
        "UPDATE levers SET peak_tile_bytes = -1",
        "UPDATE levers SET slowdown = 'much'",
        "INSERT INTO advice SELECT * FROM advice",
        "UPDATE levers SET paid_ipu_cycles_per_sample = 9e999",
    ],
)
def test_a_damaged_lever_is_refused(tmp_path: Path, damage: str) -> None:
    path = write_profile(make_oversized_profile(make_advice()), tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    connection.close()
    with pytest.raises(ProfileError, match="is damaged"):
        read_profile(path)
