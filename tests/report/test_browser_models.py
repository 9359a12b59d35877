"""Reports of real programs, captured and planned, in a browser: a CNN, BERT-base on four IPUs, one too big."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from bert_pipeline import plan_bert_on_four_ipus
from browser_page import Page, needs_browser
from selenium import webdriver

from openipu.jobs import run_job
from openipu.plan import Plan
from openipu.report import read_profile, write_html, write_profile
from openipu.report.units import format_tile_bytes

pytestmark = [pytest.mark.browser, needs_browser]

EXAMPLES = Path(__file__).parents[2] / "examples"


def plan_example(name: str) -> Plan:
    sys.path.insert(0, str(EXAMPLES))
    try:
        factories = runpy.run_path(str(EXAMPLES / "plan_models.py"))
    finally:
        sys.path.remove(str(EXAMPLES))
    return run_job(factories[name](), "bow-2000")


@pytest.mark.parametrize("name", ["cnn", "bert_base_training", "bert_on_four_ipus"])
def test_the_report_of_a_real_program_opens_and_draws_every_view(
    driver: webdriver.Chrome, tmp_path: Path, name: str
) -> None:
    plan = plan_bert_on_four_ipus() if name == "bert_on_four_ipus" else plan_example(name)
    page = Page(driver, write_html(read_profile(write_profile(plan, tmp_path)), tmp_path / "report.html"))
    driver.get_log("browser")
    page.open()
    banner = page.text("main")
    assert ("Does not fit" in banner) is not plan.fit.fits
    assert format_tile_bytes(plan.fit.peak_bytes) in banner
    charts = ["memory", "liveness", "trace", "graph", *(["pipeline"] if plan.pipeline else [])]
    for view in charts:
        page.open(f"#view={view}")
        page.settle()
        assert page.count_colours() >= 3, view
    page.open("#view=operations&group=layer")
    assert page.rows("main table"), "the table of operations has rows"
    page.open("#view=insights")
    levels = page.run("return [...document.querySelectorAll('.finding .level')].map((level) => level.textContent)")
    assert ("Problem" in levels) or plan.fit.fits
    page.open(f"#view=programs&step={plan.fit.peak_step}")
    assert page.fact("#program-facts", "Steps") == f"{plan.fit.peak_step:,}"
    if plan.pipeline:
        page.open("#view=memory&ipu=2&shown=plan&tile=9")
        assert page.fact("#tile-breakdown", "Total").startswith(format_tile_bytes(int(plan.memory[2].peak[9])))
    assert page.severe_log() == []
