"""The web report in a real browser, opened from disk: every view draws, links, answers keys and logs no error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser_page import Page, needs_browser
from plan_factory import make_bert_plan, make_cnn_plan, make_oversized_plan
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from openipu.plan.types import Plan, TileMapping
from openipu.report import build_profile, read_profile, write_html, write_profile
from openipu.report.units import format_bytes, format_cycles, format_probability, format_share

pytestmark = [pytest.mark.browser, needs_browser]

VIEWS = {
    "summary": "bert-base",
    "insights": "Insights",
    "memory": "Memory",
    "liveness": "Liveness",
    "programs": "Program tree",
    "trace": "Execution trace",
    "operations": "Operations",
    "graph": "Operation graph",
}


@pytest.fixture(scope="module")
def bert() -> Plan:
    return make_bert_plan()


@pytest.fixture(scope="module")
def bert_file(bert: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    return write_html(read_profile(write_profile(bert, folder)), folder / "a report.html")


@pytest.fixture
def page(driver: webdriver.Chrome, bert_file: Path) -> Iterator[Page]:
    opened = Page(driver, bert_file)
    driver.get_log("browser")
    yield opened
    assert opened.severe_log() == []


def test_every_view_opens_by_click(page: Page) -> None:
    page.open()
    for view, title in VIEWS.items():
        page.find(f"nav a[data-view={view}]").click()
        page.settle()
        assert page.text("h1") == title
        assert page.run("return document.querySelector('nav a[aria-current]').dataset.view") == view


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_by_link(page: Page, view: str) -> None:
    page.open(f"#view={view}")
    assert page.text("h1") == VIEWS[view]
    assert page.run("return document.title").endswith("openipu (unofficial)")


@pytest.mark.parametrize(("view", "colours"), [("memory", 5), ("liveness", 4), ("trace", 6)])
def test_canvases_are_drawn_in_many_colours(page: Page, view: str, colours: int) -> None:
    page.open(f"#view={view}")
    assert page.count_colours() >= colours


def test_an_unknown_view_shows_the_summary(page: Page) -> None:
    page.open("#view=constructor&tile=x")
    assert page.text("h1") == "bert-base"


def test_the_summary_has_the_figures_of_the_plan(page: Page, bert: Plan) -> None:
    page.open()
    assert page.text("#verdict strong") == "Fits"
    assert f"{format_bytes(bert.fit.peak_bytes)} of {format_bytes(bert.fit.limit_bytes)}" in page.text("#verdict")
    assert (
        page.text("#probability") == f"Probability that it fits a real IPU: {format_probability(bert.fit.probability)}."
    )
    figures = page.text(".figures")
    for cycles in (bert.timing.micro_cycles, bert.timing.update_cycles, bert.timing.call_cycles):
        assert f"{format_cycles(cycles)} cycles" in figures
    assert f"{bert.timing.samples_per_second:,.0f} samples/s" in figures
    slowest = page.rows("#slowest")[0]
    worst = max((op for op in bert.ops), key=lambda op: op.cycles)
    assert format_cycles(worst.cycles) in slowest
    assert worst.module in slowest


def test_a_tile_chosen_by_link_has_its_exact_bytes(page: Page, bert: Plan) -> None:
    page.open("#view=memory&tile=700")
    total = int(bert.memory[0].peak[700])
    assert page.fact("#tile-breakdown", "Total") == f"{format_bytes(total)} ({total:,} bytes)"
    parameters = sum(
        int(variable.mapping.bytes_by_tile(1472)[700]) for variable in bert.variables if variable.kind == "parameter"
    )
    assert page.fact("#tile-breakdown", "parameter") == format_bytes(parameters)
    code = sum(int(values[700]) for values in bert.memory[0].categories.values())
    script = (
        "return [...document.querySelectorAll('#tile-details td.number[title]')]"
        ".reduce((sum, cell) => sum + Number(cell.title.replace(/\\D/g, '')), 0)"
    )
    while page.run("return !document.querySelector('#tile-details .more').hidden"):
        page.run("document.querySelector('#tile-details .more').click()")
    assert page.run(script) == total - code  # the variables of the table are all there is besides code


def test_a_click_on_the_memory_chart_chooses_that_tile_and_notes_it_in_the_address(page: Page) -> None:
    page.open("#view=memory&tile=3")
    page.click_canvas(0.5, 0.6)
    tile = int(page.run("return document.getElementById('tile').value"))
    assert 600 < tile < 850
    assert page.text("#tile-details h2") == f"Tile {tile}"
    assert page.run("return location.hash") == f"#view=memory&tile={tile}"


def test_arrow_keys_move_to_the_next_tile(page: Page) -> None:
    page.open("#view=memory&tile=10")
    canvas = page.find("canvas")
    canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.run("return document.getElementById('tile').value") == "12"
    assert canvas.get_attribute("aria-valuenow") == "12"


def test_a_step_chosen_by_link_lists_the_variables_live_there(page: Page, bert: Plan) -> None:
    step = bert.fit.peak_step
    page.open(f"#view=liveness&step={step}")
    live = bert.variables_at(step)
    assert page.fact("#step-facts", "Not always live") == format_bytes(int(bert.memory[0].live_by_step[step]))
    assert f"({len(live)})" in page.text("#step-details .panel:nth-child(2) h2")
    first = page.rows("#step-details")[0]
    assert first[1] == format_bytes(max(variable.bytes for variable in live))


def test_liveness_of_one_tile_is_that_of_the_plan(page: Page, bert: Plan) -> None:
    page.open("#view=liveness&step=1500&tile=1300")
    expected = int(bert.not_always_live_at(1500)[1300])
    assert page.fact("#step-facts", "Not always live") == format_bytes(expected)
    page.find(".choice button").click()
    assert page.fact("#step-facts", "Not always live") == format_bytes(int(bert.memory[0].live_by_step[1500]))


def test_an_op_chosen_by_link_shows_its_cost_and_origin(page: Page, bert: Plan) -> None:
    op = bert.ops[12]
    page.open("#view=trace&op=12")
    assert page.fact("#op-facts", "Op") == op.op
    assert page.fact("#op-facts", "Module") == op.module
    assert page.fact("#op-facts", "Line") == str(op.line)
    assert page.fact("#op-facts", "Cycles (modelled)") == format_cycles(op.cycles)
    share = op.cycles * 32 / bert.timing.call_cycles  # 2 device iterations x 16 accumulation
    assert page.fact("#op-facts", "Of a call") == format_share(share)
    assert page.fact("#op-facts", "Plan: split") == "[4,8,46]"


def test_a_click_on_the_trace_opens_the_op_below_it(page: Page) -> None:
    page.open("#view=trace&from=2000&to=60000")
    page.click_canvas(0.4, 0.78)
    assert page.fact("#op-facts", "Op").startswith("aten.")
    assert "op=" in page.run("return location.hash")


def test_the_trace_zooms_by_key_button_and_wheel_and_keeps_the_range_in_the_address(page: Page, bert: Plan) -> None:
    page.open("#view=trace")
    whole = sum(step.cycles for step in bert.steps)
    page.find("canvas").send_keys("+")
    page.wait_until("return location.hash.includes('from=')")
    read = "const range = new URLSearchParams(location.hash.slice(1)); return range.get('to') - range.get('from')"
    assert page.run(read) == pytest.approx(whole / 2, rel=0.001)
    page.find(".tools button[aria-label='Zoom in']").click()
    page.wait_until(f"{read} < {whole * 0.3}")
    canvas = page.find("canvas")
    origin = webdriver.common.actions.wheel_input.ScrollOrigin.from_element(canvas)
    ActionChains(page.driver).scroll_from_origin(origin, 0, -300).perform()
    page.wait_until(f"{read} < {whole * 0.24}")
    page.find(".tools button[aria-label='Show everything']").click()
    page.wait_until("return !location.hash.includes('from=')")


def test_search_counts_and_visits_the_matching_ops(page: Page, bert: Plan) -> None:
    page.open("#view=trace")
    page.find("#search").send_keys("layer.3.intermediate.dense")
    expected = [op.index for op in bert.ops if "layer.3.intermediate.dense" in op.module]
    assert page.text("#found").startswith(f"{len(expected)} ops")
    page.find("#search").send_keys(Keys.ENTER)
    page.settle()
    assert page.fact("#op-facts", "Node") == bert.ops[expected[0]].name


def test_operations_sort_filter_and_count(page: Page, bert: Plan) -> None:
    page.open("#view=operations")
    cycles = [row[1] for row in page.rows("#operations")]
    expected = sorted((op.cycles for op in bert.ops), reverse=True)
    assert cycles == [format_cycles(value) for value in expected[: len(cycles)]]
    page.find("#operations th:nth-child(2) button").click()
    assert page.rows("#operations")[0][1] == format_cycles(expected[-1])
    assert page.find("#operations th:nth-child(2)").get_attribute("aria-sort") == "ascending"
    page.find("#filter").send_keys("softmax")
    matching = [op for op in bert.ops if "softmax" in op.op or op.family == "softmax"]
    assert len(page.rows("#operations")) == len(matching)
    assert page.text("#count").startswith(f"{len(matching)} of {len(bert.ops)} ops")
    assert "filter=softmax" in page.run("return location.hash")


def test_operations_leave_as_csv(page: Page, bert: Plan) -> None:
    page.open("#view=operations&filter=layer.5.attention.self.query")
    page.run(
        "window.saved = null; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make(blob); };"
        "HTMLAnchorElement.prototype.click = function () { window.savedName = this.download; };"
        "document.querySelector('#operations .save-csv').click();"
    )
    page.wait_until("return window.saved !== null")
    lines = page.run("return window.saved").splitlines()
    expected = [op for op in bert.ops if "layer.5.attention.self.query" in op.module]
    assert page.run("return window.savedName") == "bert-base-operations.csv"
    assert lines[0].startswith("op,cycles,microseconds,share_of_call")
    assert len(lines) == 1 + len(expected)
    largest = max(op.cycles for op in expected)
    assert max(float(line.split(",")[1]) for line in lines[1:]) == pytest.approx(largest)


def test_the_theme_toggles_and_redraws(page: Page) -> None:
    page.open("#view=memory")
    before = page.run("return getComputedStyle(document.body).color + document.documentElement.dataset.theme")
    image = page.run("return document.querySelector('canvas').toDataURL()")
    page.find("#theme").click()
    page.settle()
    assert page.run("return getComputedStyle(document.body).color + document.documentElement.dataset.theme") != before
    assert page.run("return document.querySelector('canvas').toDataURL()") != image
    page.find("#theme").click()


def test_the_page_is_dark_where_the_system_is(page: Page) -> None:
    page.run("try { localStorage.clear() } catch {}")
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        page.open()
        page.run("try { localStorage.clear() } catch {}")
        page.open()
        assert page.run("return document.documentElement.dataset.theme") == "dark"
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("view", VIEWS)
def test_a_telephone_needs_no_sideways_scrolling(page: Page, view: str) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.open(f"#view={view}")
        assert page.run("return document.documentElement.scrollWidth") <= 390
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("view", VIEWS)
def test_controls_have_names_and_tables_have_headings(page: Page, view: str) -> None:
    page.open(f"#view={view}")
    unnamed = page.run(
        "return [...document.querySelectorAll('button, input, select, canvas, a')].filter((element) =>"
        "  !(element.textContent.trim() || element.getAttribute('aria-label') || element.labels?.length))"
        "  .map((element) => element.outerHTML)"
    )
    assert unnamed == []
    assert page.run("return [...document.querySelectorAll('table')].every((table) => table.caption && table.tHead)")
    assert page.run("return document.querySelectorAll('h1').length") == 1


def test_a_plan_that_does_not_fit_says_so_and_names_its_tensors(driver: webdriver.Chrome, tmp_path: Path) -> None:
    plan = make_oversized_plan()
    page = Page(driver, write_html(build_profile(plan), tmp_path / "big.html"))
    page.open()
    expected = f"Does not fit: {format_bytes(plan.fit.bytes_over)} too much on {plan.fit.tiles_over:,} tiles"
    assert page.text("#verdict strong") == expected
    rows = page.rows("#culprits")
    assert [row[0] for row in rows] == [culprit.name for culprit in plan.fit.culprits]
    assert rows[0][1] == format_bytes(plan.fit.culprits[0].bytes_on_tile)
    assert rows[0][5] == "model.py:156"
    assert page.severe_log() == []


def test_memory_and_liveness_can_show_each_ipu(driver: webdriver.Chrome, tmp_path: Path) -> None:
    one = make_cnn_plan()
    halved = [
        dataclasses.replace(v, ipu=1, index=v.index + len(one.variables), mapping=TileMapping(0, 736, v.bytes // 2))
        for v in one.variables
    ]
    alone = dataclasses.replace(one, variables=tuple(dataclasses.replace(v, ipu=0) for v in halved))
    live = sum((v.mapping.bytes_by_tile(1472) for v in halved if v.always_live), start=np.zeros(1472, dtype=np.int64))
    step = one.fit.peak_step
    second = dataclasses.replace(
        one.memory[0],
        ipu=1,
        always_live=live,
        peak_not_always_live=alone.not_always_live_at(step),
        peak_step_by_tile=np.full(1472, step),
        live_by_step=one.memory[0].live_by_step // 2,
    )
    plan = dataclasses.replace(one, variables=(*one.variables, *halved), memory=(*one.memory, second))
    page = Page(driver, write_html(build_profile(plan), tmp_path / "two.html"))
    page.open("#view=memory&tile=40")
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(int(one.memory[0].peak[40])))
    page.open("#view=memory&tile=40&ipu=1")
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(int(second.peak[40])))
    page.run("const s = document.querySelector('select'); s.value = 0; s.dispatchEvent(new Event('change'))")
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(int(one.memory[0].peak.max())))
    page.open(f"#view=liveness&step={step}&ipu=1")
    assert page.fact("#step-facts", "Not always live") == format_bytes(int(second.live_by_step[step]))
    page.open("#view=memory&ipu=99&tile=-5")
    assert page.text("h1") == "Memory"
    assert page.severe_log() == []


def test_an_empty_program_opens_in_every_view(driver: webdriver.Chrome, tmp_path: Path) -> None:
    full = make_cnn_plan()
    nothing = np.zeros(0, dtype=np.int64)
    memory = dataclasses.replace(full.memory[0], live_by_step=nothing, fullest_by_step=nothing)
    plan = dataclasses.replace(full, ops=(), steps=(), variables=(), memory=(memory,))
    page = Page(driver, write_html(build_profile(plan), tmp_path / "empty.html"))
    for view in VIEWS:
        page.open(f"#view={view}")
    assert page.severe_log() == []
