"""A whole call in the trace, a selected range, and what the tiles do in a step: they add up to the plan's figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser_page import SIZES, Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from openipu.report import Profile, build_profile, summarise, write_html
from openipu.report.profile import StepTileRecord
from openipu.report.units import format_cycles, format_share

pytestmark = [pytest.mark.browser, needs_browser]

TILES = 1472


def vary_tiles(profile: Profile, step: int) -> Profile:
    """The same profile, but in one step every second tile works, and tile 7 for longest."""
    cycles = np.where(np.arange(TILES) % 2, 500, 0)
    cycles[7] = 1000
    by_tile = {step: StepTileRecord(1, cycles, None, None)}
    return dataclasses.replace(profile, steps=dataclasses.replace(profile.steps, by_tile=by_tile))


@pytest.fixture(scope="module")
def pipelined() -> Profile:
    return build_profile(make_pipelined_plan())


@pytest.fixture(scope="module")
def alone() -> Profile:
    return vary_tiles(build_profile(make_cnn_plan()), 5)


@pytest.fixture(scope="module")
def files(pipelined: Profile, alone: Profile, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("calls")
    slow = dataclasses.replace(alone, timing=dataclasses.replace(alone.timing, clock_hz=alone.timing.clock_hz / 2))
    return {
        "pipelined": write_html(pipelined, folder / "pipelined.html"),
        "alone": write_html(alone, folder / "alone.html"),
        "compared": write_html(alone, folder / "compared.html", slow),
    }


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_page(driver: webdriver.Chrome, files: dict[str, Path], size: str) -> Iterator[object]:
    def open_file(name: str, link: str) -> Page:
        page = Page(driver, files[name])
        page.resize(size)
        page.open(link)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
        return page

    driver.get_log("browser")
    yield open_file
    Page(driver, files["alone"]).resize(None)
    assert Page(driver, files["alone"]).severe_log() == []


def test_a_call_of_a_pipeline_is_every_tick_with_all_its_steps(open_page, pipelined: Profile) -> None:
    page = open_page("pipelined", "#view=trace&call=whole&ipu=2")
    timing, summary = pipelined.timing, summarise(pipelined).pipeline
    assert summary is not None
    assert f"In view: {format_cycles(timing.call_cycles)} cycles" in page.text("#trace-range")
    load = summary.ipus[2]
    update = 30_000  # 10,000 times one more than the number of its stage
    idle = 1 - (load.busy_cycles + update) / timing.call_cycles
    assert f"idle {format_share(idle)}" in page.text(".legend")
    rows = page.rows("#ops-in-view")
    assert rows[0][2] == format_cycles(16 * 2 * 50_000)  # backward, of every micro-batch
    assert [row[-1] for row in rows[:2]] == ["16", "16"]
    assert page.count_colours() >= 5


def test_a_call_of_one_ipu_repeats_the_micro_batch(open_page, alone: Profile) -> None:
    page = open_page("alone", "#view=trace&call=whole")
    once = float(alone.steps.cycles.sum())
    assert alone.timing.call_cycles == pytest.approx(4 * once)
    assert f"In view: {format_cycles(alone.timing.call_cycles)} cycles" in page.text("#trace-range")
    page.run("document.querySelector('[data-shown=once]').click()")
    page.settle()
    assert f"In view: {format_cycles(once)} cycles" in page.text("#trace-range")
    assert "call=" not in page.run("return location.hash")


def test_a_drag_with_shift_selects_a_range_and_adds_it_up(open_page, alone: Profile, size: str) -> None:
    page = open_page("alone", "#view=trace")
    canvas = page.find("canvas")
    wide = page.run("return document.querySelector('canvas').clientWidth")
    page.run("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    drag = ActionChains(page.driver, duration=0).key_down(Keys.SHIFT)
    drag.move_to_element_with_offset(canvas, round(-0.2 * wide), 0).click_and_hold()
    drag.move_by_offset(round(0.1 * wide), 0).move_by_offset(round(0.2 * wide), 0).release().key_up(
        Keys.SHIFT
    ).perform()
    page.settle()
    start, end = map(int, page.attribute("#selection", "value").split("-"))
    total = float(alone.steps.cycles.sum())
    assert (start / total, end / total) == (pytest.approx(0.3, abs=0.02), pytest.approx(0.6, abs=0.02))
    sentence = page.text("#trace-range")
    assert sentence.startswith("Selected: ")
    assert f"selected={start}-{end}" in page.run("return location.hash")
    starts = np.concatenate([[0.0], np.cumsum(alone.steps.cycles)])
    page.open(f"#view=trace&selected={start}-{end}")  # the link shows the same
    inside = np.minimum(starts[1:], end) - np.maximum(starts[:-1], start)
    assert f"Selected: {end - start:,} cycles" in page.text("#trace-range")
    for kind in ("host", "compute"):
        cycles = sum(
            float(part) for part, own in zip(inside, alone.steps.kind, strict=True) if own == kind and part > 0
        )
        assert f"{kind} {format_share(cycles / (end - start))}" in page.text(".legend")
    page.run("document.getElementById('clear-selection').click()")
    assert page.text("#trace-range").startswith("In view: ")


def test_a_step_tells_which_tile_all_others_wait_for(open_page) -> None:
    page = open_page("alone", "#view=trace&step=5")
    assert page.fact("#step-facts", "Tiles at work") == "736 of 1,472, 736 idle"
    assert page.fact("#step-facts", "Busiest tile") == "tile 7, 1,000 cycles"
    mean = (735 * 500 + 1000) / TILES
    assert page.fact("#step-facts", "Mean of all tiles") == f"{mean:.0f} cycles"
    assert page.fact("#step-facts", "Tile balance") == format_share(mean / 1000)
    assert page.count_shades("#tile-balance canvas") > 3
    page = open_page("alone", "#view=trace&step=4")  # all its tiles take as long
    assert page.fact("#step-facts", "Busiest tile") == "all of them take as long"


def test_compared_traces_stand_on_one_axis_of_time(open_page, alone: Profile) -> None:
    page = open_page("compared", "#view=trace")
    end = page.run("return document.getElementById('trace-range').textContent.match(/to ([\\d,]+);/)[1]")
    assert end == format_cycles(float(alone.steps.cycles.sum()))
    # At half the clock the other takes twice as long: twice the cycles of this clock are on the axis.
    hovered = page.run(
        "const canvas = document.querySelector('canvas'); const box = canvas.getBoundingClientRect();"
        "const show = (share) => { canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + 8 +"
        " share * (box.width - 16), clientY: box.bottom - 60, bubbles: true}));"
        " const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.textContent; };"
        "return [show(0.75), show(0.25)]"
    )
    assert all(text.startswith("B") for text in hovered)
    assert page.rows("#trace-differences")
