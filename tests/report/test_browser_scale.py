"""1,472 tiles, 16 IPUs and 5,000 steps on each: the page stays small, opens at once and keeps up with the hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bench.report_scale import MOVE, build_large_profile
from browser_page import Page, needs_browser
from selenium import webdriver

from openipu.report import Profile, write_html

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def profile() -> Profile:
    return build_large_profile()


@pytest.fixture(scope="module")
def file(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_html(profile, tmp_path_factory.mktemp("scale") / "report.html")


@pytest.fixture
def page(driver: webdriver.Chrome, file: Path) -> Iterator[Page]:
    opened = Page(driver, file)
    driver.get_log("browser")
    yield opened
    assert opened.severe_log() == []


def test_the_file_is_far_below_fifteen_megabytes(profile: Profile, file: Path) -> None:
    assert (len(profile.steps), len(profile.memory), profile.system.target.tiles) == (80_000, 16, 1472)
    assert file.stat().st_size < 6_000_000


def test_it_opens_within_two_seconds(page: Page) -> None:
    page.open()
    assert page.run("return performance.now()") < 2000


@pytest.mark.parametrize("view", ["memory", "liveness", "trace", "graph"])
def test_zoom_and_pan_keep_up(page: Page, view: str) -> None:
    page.open(f"#view={view}")
    frames = np.array(page.driver.execute_async_script(MOVE, 40))
    assert np.median(frames) < 50  # 16.7 ms on an idle machine; a busy one may drop a frame or two


def test_the_tree_and_the_tables_hold_all_of_it(page: Page, profile: Profile) -> None:
    page.open("#view=programs&step=79999")
    assert page.fact("#program-facts", "Steps") == "79,999"
    assert page.run("return document.querySelectorAll('.tree-row').length") < 80  # only rows in sight exist
    page.open("#view=operations&group=layer")
    assert len(page.rows("#operations")) == len({op.module.split(".block")[0] for op in profile.ops})
