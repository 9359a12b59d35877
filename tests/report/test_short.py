"""Plans, profiles and findings are a few lines at a prompt, and the page in a notebook, without a copy as text."""

from __future__ import annotations

import dataclasses

import pytest
from plan_factory import make_bert_plan, make_cnn_plan, make_oversized_plan

from openipu.plan.types import Plan
from openipu.report import build_profile, find_insights, read_profile, write_profile
from openipu.report.insights import Findings
from openipu.report.units import format_bytes

MANY = 2_000  # characters: what no repr here may reach


@pytest.mark.parametrize("make", [make_bert_plan, make_cnn_plan, make_oversized_plan])
def test_a_plan_and_its_profile_are_a_few_lines_with_the_same_figures(make, tmp_path) -> None:
    plan = make()
    write_profile(build_profile(plan), tmp_path / "profile.pop")
    of_plan, of_profile = (repr(item).splitlines() for item in (plan, read_profile(tmp_path / "profile.pop")))
    assert 4 <= len(of_plan) <= 5
    assert sum(map(len, of_plan)) < MANY
    assert of_plan[0].replace("Plan of", "Profile of") == of_profile[0]
    assert of_plan[1:] == of_profile[1:]


def test_the_lines_say_whether_it_fits_and_how_much_it_needs() -> None:
    fitting, oversized = make_cnn_plan(), make_oversized_plan()
    assert f"  fits, its fullest tile needs {format_bytes(fitting.fit.peak_bytes)} of" in repr(fitting)
    assert f"{len(fitting.ops):,} ops, {len(fitting.steps):,} steps" in repr(fitting)
    assert "does not fit (" in repr(oversized)


def show_in_notebook(item: Plan) -> dict[str, str]:
    """What a notebook keeps of the last line of a cell: the texts by their kind."""
    return {"text/plain": repr(item), "text/html": item._repr_html_()}


def test_a_plan_in_a_notebook_is_its_page_and_a_few_lines() -> None:
    plan = make_cnn_plan()
    shown = show_in_notebook(plan)
    assert shown["text/html"].startswith(f'<iframe title="Report of {plan.name}" srcdoc="&lt;!doctype html&gt;')
    assert len(shown["text/plain"]) < MANY < len(shown["text/html"])


def test_findings_stand_below_each_other_with_cause_and_remedy() -> None:
    findings = Findings(2 * find_insights(build_profile(make_oversized_plan())))
    blocks = repr(findings).split("Finding: ")[1:]
    assert len(blocks) == len(findings) > 1
    assert all(len(block.splitlines()) <= 4 for block in blocks)
    assert blocks[0].startswith(f"{findings[0].level} ({findings[0].topic}): {findings[0].title}")
    assert f"-> {findings[0].remedy[:40]}" in blocks[0]
    assert findings[0].evidence[0].name in blocks[0]


def test_findings_in_a_notebook_are_a_list_whose_texts_are_escaped() -> None:
    findings = find_insights(build_profile(make_oversized_plan()))
    assert findings._repr_html_().count("<li>") == len(findings)
    assert findings[0]._repr_html_().count("<li>") == 1
    hostile = Findings([dataclasses.replace(findings[0], title="<script>alert(1)</script>")])
    assert "<script>" not in hostile._repr_html_()
    assert (repr(Findings()), Findings()._repr_html_()) == ("No findings", "<p>Nothing was found.</p>")
