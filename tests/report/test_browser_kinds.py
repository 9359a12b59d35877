"""Memory that changes, by kind: in the chart of tiles, over steps and in the details, at three sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_page import SIZES, Page, needs_browser
from plan_factory import PlanBuilder, make_bert_plan
from selenium import webdriver

from openipu.graph import Phase, RunOptions
from openipu.ops.cost import Family
from openipu.plan.types import VariableKind
from openipu.report import Profile, build_profile, write_html
from openipu.report.units import format_bytes

pytestmark = [pytest.mark.browser, needs_browser]

TILES = 1472


def build_small() -> Profile:
    """Of every kind one variable, on all tiles: 1, 2, 4 and 8 KiB a tile."""
    build = PlanBuilder("kinds", RunOptions(training=True), 4)
    layout = build.add_op("aten.clone.default", Family.LAYOUT, Phase.FORWARD, "m", cycles=1000)
    work = build.add_op("aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, "m", cycles=1000, rounds=3)
    last = len(build.steps) - 1
    build.add_variable("kept", VariableKind.ACTIVATION, (TILES, 512), life=(0, last), op=work)
    build.add_variable("slope", VariableKind.GRADIENT, (TILES, 1024), life=(1, last), op=work)
    build.add_variable("moved", VariableKind.ACTIVATION, (TILES, 2048), life=(1, last), op=layout)
    build.add_variable("partial", VariableKind.SCRATCH, (TILES, 4096), life=(last, last), op=work)
    build.add_variable("weight", VariableKind.PARAMETER, (TILES, 512))
    return build_profile(build.build())


@pytest.fixture(scope="module")
def small() -> Profile:
    return build_small()


@pytest.fixture
def page(driver: webdriver.Chrome, small: Profile, tmp_path: Path) -> Iterator[Page]:
    opened = Page(driver, write_html(small, tmp_path / "report.html"))
    driver.get_log("browser")
    yield opened
    opened.resize(None)
    assert opened.severe_log() == []


@pytest.mark.parametrize("size", SIZES)
def test_a_tile_says_what_its_changing_memory_is_for(page: Page, size: str) -> None:
    page.resize(size)
    page.open("#view=memory&tile=700")
    kib = {"activation": 1, "gradient": 2, "copy": 4, "scratch": 8}
    assert page.fact("#tile-breakdown", "Not always live") == format_bytes(15 * 1024)
    for kind, count in kib.items():
        assert page.fact("#tile-breakdown", kind) == format_bytes(count * 1024)
    legend = page.text(".legend")
    assert all(f"{kind} {format_bytes(count * 1024 * TILES)}" in legend for kind, count in kib.items())
    kinds = {row[0]: row[3] for row in page.rows("#tile-variables")}
    assert (kinds["moved"], kinds["kept"]) == ("copy", "activation")
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.count_colours() >= 6


@pytest.mark.parametrize("size", SIZES)
def test_a_step_says_what_is_live_there_by_kind_and_several_steps_compare(
    page: Page, small: Profile, size: str
) -> None:
    page.resize(size)
    last = len(small.steps) - 1
    page.open("#view=liveness&step=1")
    assert page.fact("#step-facts", "Not always live") == format_bytes(7 * 1024 * TILES)
    assert page.fact("#step-facts", "Not always live: copy") == format_bytes(4 * 1024 * TILES)
    assert page.fact("#step-facts", "Not always live: scratch") == "None"  # nothing of it is live there
    page.open(f"#view=liveness&step={last}&tile=3")
    assert page.fact("#step-facts", "Not always live: scratch") == format_bytes(8 * 1024)
    page.open(f"#view=liveness&steps=0,{last}")
    rows = {row[0]: row[1:] for row in page.rows("#step-columns")}
    assert rows["scratch"][:2] == ["–", format_bytes(8 * 1024 * TILES)]
    assert rows["activation"][:2] == [format_bytes(1024 * TILES)] * 2
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")


def test_the_axis_fits_the_data_and_shows_the_limit_on_demand(page: Page) -> None:
    def read_axis() -> float:
        page.settle()
        return float(page.attribute("canvas.plot", "data-top"))

    for view in ("memory", "liveness&tile=3"):
        page.open(f"#view={view}")
        assert read_axis() < 100 * 1024  # 589 KiB would leave the chart empty
        assert page.run("return document.querySelector('.with-limit').checked") is False
        page.find(".with-limit").click()
        assert read_axis() == pytest.approx(589 * 1024 * 1.1, rel=0.01)
        assert "limit=yes" in page.run("return location.hash")
        page.open(f"#view={view}&limit=yes")
        assert read_axis() > 600 * 1024


def test_a_full_tile_shows_its_limit_at_once(driver: webdriver.Chrome, tmp_path: Path) -> None:
    page = Page(driver, write_html(build_profile(make_bert_plan()), tmp_path / "report.html"))
    page.open("#view=memory")
    assert page.run("return document.querySelector('.with-limit').checked") is True


def test_why_less_is_usable_than_a_tile_has_is_said_in_the_page_as_in_the_docs(page: Page) -> None:
    page.open("#view=memory")
    said = (
        "589 KiB of a tile's 624 KiB are usable: 2.80 KiB are reserved for stacks and the loader and 32.0 KiB are set "
        "aside for gaps between variables and code that is not counted."
    )
    assert said in page.text(".lead")
    docs = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    assert said.replace("2.80", "2.8").replace("32.0", "32") in docs


def test_kinds_add_up_to_what_the_plan_says_of_every_tile_and_step(driver: webdriver.Chrome, tmp_path: Path) -> None:
    profile = build_profile(make_bert_plan())
    page = Page(driver, write_html(profile, tmp_path / "report.html"))
    page.open("#view=memory&tile=1300")
    memory = profile.memory[0]
    step = int(memory.peak_step_by_tile[1300])
    expected: dict[str, int] = defaultdict(int)
    for variable in profile.variables:
        if not variable.always_live and variable.first_step <= step <= variable.last_step:
            expected[profile.kind_of(variable)] += variable.bytes_on_tile(1300, TILES)
    assert sum(expected.values()) == int(memory.peak_not_always_live[1300])
    for kind, count in expected.items():
        if count:
            assert page.fact("#tile-breakdown", kind) == format_bytes(count)
    page.open("#view=liveness&step=1500")
    expected.clear()
    for variable in profile.variables:
        if not variable.always_live and variable.first_step <= 1500 <= variable.last_step:
            expected[profile.kind_of(variable)] += int(variable.bytes_by_tile(TILES).sum())
    assert sum(expected.values()) == int(memory.live_by_step[1500])
    for kind, count in expected.items():
        assert page.fact("#step-facts", f"Not always live: {kind}") == format_bytes(count)


def test_columns_of_tiles_are_whole_pixels_at_any_width(page: Page) -> None:
    page.resize("1920")
    page.open("#view=memory")
    # Every tile holds the same near the ground: all pixels of that row have one colour, but for the frame of one tile.
    odd = page.run(
        "const canvas = document.querySelector('canvas.plot');"
        "const {data} = canvas.getContext('2d').getImageData(70, canvas.height - 36, canvas.width - 90, 1);"
        "const seen = new Map();"
        "for (let at = 0; at < data.length; at += 4) {"
        "  const colour = data.slice(at, at + 3).join();"
        "  seen.set(colour, (seen.get(colour) ?? 0) + 1);"
        "}"
        "return data.length / 4 - Math.max(...seen.values())"
    )
    assert odd <= 6
