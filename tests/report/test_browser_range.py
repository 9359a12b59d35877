"""The trace's statistics follow what is in view and add up, in a real browser at three sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_page import SIZES, Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver

from openipu.report import Profile, build_profile, write_html
from openipu.report.perfetto.order import find_starts
from openipu.report.units import format_share

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return build_profile(make_cnn_plan())


@pytest.fixture
def page(driver: webdriver.Chrome, profile: Profile, tmp_path: Path) -> Iterator[Page]:
    opened = Page(driver, write_html(profile, tmp_path / "report.html"))
    driver.get_log("browser")
    yield opened
    opened.resize(None)
    assert opened.severe_log() == []


def measure(profile: Profile, ipu: int, start: float, end: float) -> tuple[dict[str, float], dict[int, float]]:
    """Cycles by kind and by op between two cycles of one IPU."""
    kinds: dict[str, float] = defaultdict(float)
    ops: dict[int, float] = defaultdict(float)
    for step, begins in enumerate(find_starts(profile).tolist()):
        inside = min(begins + float(profile.steps.cycles[step]), end) - max(begins, start)
        if inside > 0 and int(profile.steps.ipu[step]) == ipu:
            kinds[profile.steps.kind[step]] += inside
            ops[int(profile.steps.op[step])] += inside
    return kinds, ops


def open_range(page: Page, start: float, end: float, more: str = "") -> None:
    page.open(f"#view=trace&from={start:.0f}&to={end:.0f}{more}")
    page.wait_until(
        f"return document.getElementById('trace-range').textContent.includes('from {start:,.0f} to {end:,.0f}')"
    )


@pytest.mark.parametrize("size", SIZES)
def test_kinds_and_ops_in_view_have_the_cycles_of_the_plan(page: Page, profile: Profile, size: str) -> None:
    page.resize(size)
    total = float(profile.steps.cycles.sum())
    start, end = round(0.31 * total), round(0.47 * total)  # somewhere inside of steps
    open_range(page, start, end)
    kinds, ops = measure(profile, 0, start, end)
    assert sum(kinds.values()) == pytest.approx(end - start)
    legend = page.text(".legend")
    for kind, cycles in kinds.items():
        assert f"{kind} {format_share(cycles / (end - start))}" in legend
    rows = page.rows("#ops-in-view")
    assert [row[2] for row in rows] == [f"{cycles:,.0f}" for cycles in sorted(ops.values(), reverse=True)[:10]]
    assert f"In view: {end - start:,} cycles" in page.text("#trace-range")
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_everything_in_view_is_the_whole_trace(page: Page, profile: Profile) -> None:
    page.open("#view=trace")
    total = float(profile.steps.cycles.sum())
    assert f"In view: {total:,.0f} cycles" in page.text("#trace-range")
    page.find(".tool[aria-label='Zoom in']").click()
    page.wait_until(
        f"return document.getElementById('trace-range').textContent.includes('In view: {total / 2:,.0f} cycles')"
    )


def test_an_ipu_that_waits_has_its_idle_cycles_among_the_sums(driver: webdriver.Chrome, tmp_path: Path) -> None:
    profile = build_profile(make_pipelined_plan())
    page = Page(driver, write_html(profile, tmp_path / "report.html"))
    starts = find_starts(profile)
    end = round(float((starts + profile.steps.cycles).max()) / 2)
    open_range(page, 0, end, "&ipu=1")
    kinds, _ = measure(profile, 1, 0, end)
    assert f"other IPUs' turn {format_share(1 - sum(kinds.values()) / end)}" in page.text(".legend")
    assert page.severe_log() == []


def test_an_op_in_view_is_chosen_by_a_click(page: Page) -> None:
    page.open("#view=trace")
    names = [row[0] for row in page.rows("#ops-in-view")]
    assert names[0] == "steps without an op"  # images from the host: the first of them is shown
    buttons = page.driver.find_elements("css selector", "#ops-in-view tbody button")
    buttons[0].click()
    assert "load images" in page.text("#op-details")
    buttons[1].click()
    assert names[1] in page.text("#op-details")
