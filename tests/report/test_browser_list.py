"""The list of reports in a real browser: at every size, without a script, and its links lead to the reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from advice_factory import make_advice, make_oversized_profile
from browser_page import SIZES, Page, needs_browser
from plan_factory import make_cnn_plan
from selenium import webdriver
from test_browser_axe import RUN, axe

from openipu.report import build_profile, write_profile
from openipu.report.listing import list_reports, write_list, write_missing_pages

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    write_profile(
        replace(build_profile(make_cnn_plan()), created="2026-01-31T12:34:56+00:00"), place / "first/training"
    )
    misfit = replace(make_oversized_profile(make_advice()), name="wide <i>", created="2026-02-01T00:00:00+00:00")
    write_profile(misfit, place / "second run")
    entries = list_reports(place)
    write_missing_pages(entries)
    write_list(entries, place / "reports.html", "runs")
    return place


@pytest.mark.parametrize("size", SIZES)
def test_the_list_is_legible_at_every_size(driver: webdriver.Chrome, folder: Path, size: str) -> None:
    page = Page(driver, folder / "reports.html")
    page.resize(size)
    try:
        page.open()
        rows = page.rows("table")
        assert [row[0] for row in rows] == ["wide <i>second run", "resnetfirst/training"], "newest first, names as text"
        assert [row[2] for row in rows] == ["does not fit", "fits"]
        assert [row[-1] for row in rows] == ["2026-02-01 00:00", "2026-01-31 12:34"]
        assert page.run("return document.documentElement.scrollWidth <= window.innerWidth"), "only the table scrolls"
        driver.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        assert driver.execute_async_script(RUN) == []
    finally:
        page.resize(None)
    assert page.severe_log() == []


def test_a_link_leads_to_the_report(driver: webdriver.Chrome, folder: Path) -> None:
    page = Page(driver, folder / "reports.html")
    page.open()
    page.find("tbody a").click()
    page.wait_until("return location.pathname.endsWith('/second%20run/report.html') && !!document.querySelector('h1')")
    assert "wide <i>" in driver.title
