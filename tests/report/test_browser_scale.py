"""1,472 tiles, 16 IPUs and 5,000 steps on each: the page stays small, and draws what is in sight, not all there is.

How long that takes is measured by `python -m bench.report_scale`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.report_scale import MOVE, build_large_profile
from browser_page import Page, needs_browser
from selenium import webdriver

from openipu.report import Profile, write_html

pytestmark = [pytest.mark.browser, needs_browser]

MOST_STROKES = 20_000  # in a frame: a dozen for each column of pixels, where there are 80,000 steps
COUNT_STROKES = """
window.strokes = 0;
const brush = CanvasRenderingContext2D.prototype;
for (const name of ['fillRect', 'strokeRect', 'fillText', 'lineTo', 'moveTo', 'rect', 'arc', 'roundRect']) {
  const draw = brush[name];
  brush[name] = function (...where) { window.strokes += 1; return draw.apply(this, where); };
}
"""


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


def test_it_opens_with_a_page_that_does_not_grow_with_the_program(page: Page) -> None:
    page.open()
    assert page.run("return document.querySelectorAll('*').length") < 3000


@pytest.mark.parametrize("view", ["memory", "liveness", "trace", "graph"])
def test_a_gesture_draws_no_more_than_the_canvas_can_show(page: Page, view: str) -> None:
    page.open(f"#view={view}")
    page.run(COUNT_STROKES)
    frames = len(page.driver.execute_async_script(MOVE, 40)) + 5  # the first five are not reported
    strokes = page.run("return window.strokes")
    assert strokes > frames, "nothing was drawn: then this says nothing"
    assert strokes / frames < MOST_STROKES


def test_the_tree_and_the_tables_hold_all_of_it(page: Page, profile: Profile) -> None:
    page.open("#view=programs&step=79999")
    assert page.fact("#program-facts", "Steps") == "79,999"
    assert page.run("return document.querySelectorAll('.tree-row').length") < 80  # only rows in sight exist
    page.open("#view=operations&group=layer")
    assert len(page.rows("#operations")) == len({op.module.split(".block")[0] for op in profile.ops})
