"""Two reports in one page: every view compares them, and either can be the one that is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_page import SIZES, Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_bert_plan, make_cnn_plan
from selenium import webdriver

from openipu.cli.main import main
from openipu.machine import resolve_system
from openipu.plan import Plan
from openipu.report import build_profile, write_html, write_profile
from openipu.report.comparison import label_profiles
from openipu.report.units import format_bytes, format_cycles

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    return make_bert_plan(rounds=2), make_bert_plan("bert-wider", micro_batch=4, rounds=2)


@pytest.fixture(scope="module")
def file(plans: tuple[Plan, Plan], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as users make it: openipu report A B."""
    folder = tmp_path_factory.mktemp("two")
    for name, plan in zip("ab", plans, strict=True):
        write_profile(plan, folder / name)
    assert main(["report", str(folder / "a"), str(folder / "b")]) == 0
    return folder / "a" / "comparison.html"


@pytest.fixture
def page(driver: webdriver.Chrome, file: Path) -> Iterator[Page]:
    opened = Page(driver, file)
    driver.get_log("browser")
    yield opened
    assert opened.severe_log() == []


def test_the_summary_has_both_with_the_change(page: Page, plans: tuple[Plan, Plan]) -> None:
    page.open()
    rows = {row[0]: row for row in page.rows("#comparison")}
    sizes = [plan.fit.peak_bytes for plan in plans]
    change = f"+{(sizes[1] / sizes[0] - 1) * 100:.1f} %"
    assert rows["Fullest tile"][1:] == [format_bytes(sizes[0]), format_bytes(sizes[1]), change]
    assert rows["Steps"][3] == "same"
    assert page.run("return document.querySelector('#comparison .bad') !== null")


def test_the_other_report_can_be_the_one_shown_and_links_keep_it(page: Page, plans: tuple[Plan, Plan]) -> None:
    page.open()
    page.find("#reports button[data-report=b]").click()
    page.settle()
    assert page.text("h1") == "bert-wider"
    page.find("nav a[data-view=memory]").click()
    page.settle()
    assert "report=b" in page.run("return location.hash")
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(plans[1].fit.peak_bytes))
    page.open("#view=memory&tile=700&report=b")
    own, other = (int(plan.memory[0].peak[700]) for plan in reversed(plans))
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(own))
    assert page.fact("#tile-breakdown", "The same tile in the other report").startswith(format_bytes(other))


@pytest.mark.parametrize("view", ["memory", "liveness", "trace"])
def test_charts_draw_the_other_report_too(page: Page, tmp_path: Path, plans: tuple[Plan, Plan], view: str) -> None:
    page.open(f"#view={view}")
    both = page.run("return document.querySelector('canvas').toDataURL()")
    alone = Page(page.driver, write_html(build_profile(plans[0]), tmp_path / "alone.html"))
    alone.open(f"#view={view}")
    assert alone.run("return document.querySelector('canvas').toDataURL()") != both


def test_ops_and_groups_have_the_cycles_of_their_counterparts(page: Page, plans: tuple[Plan, Plan]) -> None:
    page.open("#view=operations&filter=layer.3.intermediate.dense")
    largest = max((op for op in plans[0].ops if "layer.3.intermediate.dense" in op.module), key=lambda op: op.cycles)
    row = page.rows("#operations")[0]
    assert (row[1], row[4]) == (format_cycles(largest.cycles), format_cycles(plans[1].ops[largest.index].cycles))
    page.open("#view=operations&group=family")
    row = page.rows("#operations")[0]
    sums = []
    for profile in map(build_profile, plans):
        inside = [op for op in profile.ops if op.family == row[0]]
        sums.append(sum(op.cycles * profile.executions(op.phase) for op in inside))
    assert (row[3], row[5]) == (format_cycles(sums[0]), format_cycles(sums[1]))


def test_tree_graph_and_insights_compare(page: Page, plans: tuple[Plan, Plan]) -> None:
    op = plans[0].ops[12]
    theirs = plans[1].ops[12].cycles
    page.open(f"#view=programs&step={op.first_step}")
    assert page.fact("#program-facts", "The same op in the other report").startswith(format_cycles(theirs))
    page.open("#view=graph&op=12")
    assert page.fact("#node-facts", "Change to the other report") == f"+{(theirs / op.cycles - 1) * 100:.1f} %"
    page.open("#view=insights")
    assert page.rows("#insight-comparison")


def test_pipelines_compare(driver: webdriver.Chrome, tmp_path: Path) -> None:
    first, second = make_pipelined_plan(micro_batches=8), make_pipelined_plan(micro_batches=32)
    page = Page(driver, write_html(build_profile(first), tmp_path / "two.html", build_profile(second)))
    driver.get_log("browser")
    page.open("#view=pipeline")
    rows = {row[0]: row for row in page.rows("#pipeline-comparison")}
    assert rows["Micro-batches"][1:3] == ["8", "32"]
    assert rows["Ticks"][1:3] == ["14", "38"]  # micro-batches + 7 stages - 1
    assert page.severe_log() == []


def name_pair(one: str, two: str, systems: tuple[str, str] = ("bow-2000", "bow-2000")) -> tuple[str, str]:
    first, second = (
        dataclasses.replace(build_profile(make_cnn_plan()), system=resolve_system(system)) for system in systems
    )
    return label_profiles(first, second, (Path(one), Path(two)))


def test_two_reports_are_told_apart_by_what_differs_of_their_folders_and_systems() -> None:
    assert name_pair("/runs/before/training", "/runs/after/training") == ("before", "after")
    assert name_pair("/runs/a/x/training", "/runs/b/training") == ("a/x", "b")
    assert name_pair("/runs/a", "/runs/b", ("m2000", "bow-2000")) == ("a, m2000", "b, bow-2000")
    assert name_pair("/runs/a", "/runs/a") == ("", "")
    assert name_pair("/runs/a", "/runs/a/old") == ("", "old")


@pytest.mark.parametrize("size", SIZES)
def test_every_heading_names_the_folders_beside_the_letters(page: Page, size: str) -> None:
    page.resize(size)
    page.open()
    heads = page.run("return [...document.querySelectorAll('#comparison thead th')].map((head) => head.textContent)")
    assert heads == ["Figure", "A (a)", "B (b)", "B against A"]
    buttons = page.run("return [...document.querySelectorAll('#reports button')].map((button) => button.textContent)")
    assert buttons == ["A (a)", "B (b)"]
    page.open("#view=operations&report=b")
    assert "Cycles, A (a)" in page.run("return document.querySelector('main thead').textContent")
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    page.resize(None)
