"""Charts and tables at three sizes: images to save, one wheel, no pattern of their own, headings that explain."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from browser_page import SIZES, Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver

from openipu.report import MemoryRecord, build_profile, write_html

pytestmark = [pytest.mark.browser, needs_browser]

CHARTS = ("memory", "memory&shown=plan", "liveness", "trace", "pipeline", "graph")
VIEWS = (
    "summary",
    "insights",
    "memory",
    "liveness",
    "programs",
    "trace",
    "pipeline",
    "operations",
    "operations&group=layer",
    "graph",
)
CATCH = """
const done = arguments[0];
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => {
  const reader = new FileReader();
  reader.onload = () => done([blob.type, reader.result.split(',')[1]]);
  reader.readAsDataURL(blob);
  URL.createObjectURL = make;
  return make.call(URL, blob);
};
[...document.querySelectorAll(arguments[1])].find((button) => button.offsetParent).click();
"""
TURN = """
const canvas = [...document.querySelectorAll('canvas')].find((one) => one.tabIndex === 0 && one.offsetParent);
const turn = (deltaY) => {
  const box = canvas.getBoundingClientRect();
  const [clientX, clientY] = [box.left + box.width / 2, box.top + 60];
  const event = new WheelEvent('wheel', {deltaY, bubbles: true, cancelable: true, clientX, clientY});
  canvas.dispatchEvent(event);
  return event.defaultPrevented;
};
return [turn(100), turn(-100), turn(100)];
"""
FONTS = """
const brush = CanvasRenderingContext2D.prototype;
window.fonts = [];
const draw = brush.fillText;
brush.fillText = function (...where) { window.fonts.push(parseFloat(this.font)); return draw.apply(this, where); };
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_html(build_profile(make_pipelined_plan()), tmp_path_factory.mktemp("charts") / "report.html")


@pytest.fixture
def page(driver: webdriver.Chrome, file: Path) -> Iterator[Page]:
    opened = Page(driver, file)
    driver.get_log("browser")
    yield opened
    opened.resize(None)
    assert opened.severe_log() == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", CHARTS)
def test_a_chart_leaves_as_svg_and_png(page: Page, view: str, size: str) -> None:
    page.resize(size)
    page.open(f"#view={view}")
    script = CATCH.replace("arguments[0]", "arguments[arguments.length - 1]").replace("arguments[1]", "arguments[0]")
    kind, text = page.driver.execute_async_script(script, ".save-svg")
    assert kind == "image/svg+xml"
    root = ElementTree.fromstring(base64.b64decode(text))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert tags.count("rect") > (2 if size == "phone" else 5)  # a phone shows fewer boxes of a graph
    assert tags.count("text") > 2 or view.endswith("plan")
    kind, text = page.driver.execute_async_script(script, ".save-png")
    image = base64.b64decode(text)
    assert kind == "image/png"
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    wide = int.from_bytes(image[16:20], "big")
    assert wide >= 2 * (250 if size == "phone" else 500)  # twice as many pixels as on the screen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", ["memory", "liveness", "trace", "pipeline", "graph"])
def test_the_wheel_zooms_every_chart_and_scrolls_where_all_is_in_view(page: Page, view: str, size: str) -> None:
    page.resize(size)
    page.open(f"#view={view}")
    if view == "graph":
        page.run("document.querySelector('[aria-label=\"Show everything\"]').click()")
        page.settle()
    assert page.run(TURN) == [False, True, True]


@pytest.mark.parametrize("size", SIZES)
def test_tables_fit_and_every_heading_says_what_it_means(page: Page, size: str) -> None:
    page.resize(size)
    for view in VIEWS:
        page.open(f"#view={view}")
        page.settle()
        wide = page.run(
            "return [...document.querySelectorAll('.table-scroll')]"
            ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute('aria-label'))"
        )
        assert wide == [], view
        mute = (
            "return [...document.querySelectorAll('thead th')].filter((one) => !one.title).map((one) => one.innerText)"
        )
        assert page.run(mute) == [], view
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), view


def test_columns_without_room_come_back_by_a_button_and_are_saved_all_the_same(page: Page) -> None:
    page.resize("phone")
    page.open("#view=operations")
    shown = "return [...document.querySelectorAll('#operations thead th')].filter((one) => !one.hidden).length"
    before = page.run(shown)
    page.find("#operations .wider").click()
    assert page.run(shown) == page.run("return document.querySelectorAll('#operations thead th').length") > before
    page.find("#operations .wider").click()
    assert page.run(shown) == before


@pytest.mark.parametrize("size", SIZES)
def test_letters_of_the_graph_can_be_read_at_any_zoom(page: Page, size: str) -> None:
    page.resize(size)
    page.open("#view=graph")
    page.run(FONTS)
    for label in ("Zoom out", "Zoom out", "Show everything", "Zoom in"):
        page.run('document.querySelector(`[aria-label="${arguments[0]}"]`).click()', label)
        page.settle()
    fonts = page.run("return window.fonts")
    assert fonts
    assert min(fonts) >= 11


def test_equal_tiles_make_no_pattern_at_any_width_and_density(driver: webdriver.Chrome, tmp_path: Path) -> None:
    profile = build_profile(make_cnn_plan())
    tiles = profile.system.target.tiles
    nothing, steps = np.zeros(tiles, dtype=np.int64), np.zeros(len(profile.steps), dtype=np.int64)
    even = MemoryRecord(0, nothing, {"vertexCode": nothing + 9000}, nothing, nothing, steps, steps)
    page = Page(driver, write_html(dataclasses.replace(profile, memory=(even,), variables=()), tmp_path / "even.html"))
    try:
        for width, density in [(1280, 1), (1366, 1.25), (1707, 1.5), (1920, 1), (1921, 2), (390, 2.625)]:
            metrics = {"width": width, "height": 900, "deviceScaleFactor": density, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            page.open("#view=memory&tile=0")
            row = page.run(
                "const canvas = document.querySelector('.plot'); const scale = canvas.width / canvas.clientWidth;"
                "const [left, right] = [80 * scale, canvas.width - 16 * scale].map(Math.round);"
                "const [y, wide] = [Math.round(canvas.height * 0.6), right - left];"
                "const {data} = canvas.getContext('2d').getImageData(left, y, wide, 1);"
                "return [...new Set(Array.from({length: wide}, (_, at) => data.slice(4 * at, 4 * at + 4).join()))]"
            )
            assert len(row) == 1, (width, density)
    finally:
        page.resize(None)
