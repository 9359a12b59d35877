"""The web report of a program over several IPUs: the pipeline, a lane an IPU in the trace, memory side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_page import Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from openipu.plan.types import Pipeline, Plan
from openipu.report import build_profile, read_profile, summarise, write_html, write_profile
from openipu.report.units import format_bytes, format_cycles, format_share

pytestmark = [pytest.mark.browser, needs_browser]

VIEWS = (
    "summary",
    "insights",
    "memory",
    "liveness",
    "programs",
    "trace",
    "pipeline",
    "operations",
    "graph",
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_pipelined_plan()


@pytest.fixture(scope="module")
def file(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipelined")
    return write_html(read_profile(write_profile(plan, folder)), folder / "report.html")


@pytest.fixture
def page(driver: webdriver.Chrome, file: Path) -> Iterator[Page]:
    opened = Page(driver, file)
    driver.get_log("browser")
    yield opened
    assert opened.severe_log() == []


@pytest.fixture
def long_page(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[Page]:
    plan = make_pipelined_plan(micro_batches=2000)
    driver.get_log("browser")
    opened = Page(driver, write_html(build_profile(plan), tmp_path / "long.html"))
    yield opened
    assert opened.severe_log() == []


def start_of_block(pipeline: Pipeline, index: int, batch: int) -> float:
    """When a stage begins a micro-batch: the ticks before it, then the stages before it on its IPU in that tick."""
    tick = batch + index
    ticks = [*pipeline.fill_cycles, *[pipeline.steady_cycles] * pipeline.steady_ticks, *pipeline.drain_cycles]
    stage = pipeline.stages[index]
    earlier = [
        other.cycles
        for other in pipeline.stages[:index]
        if other.ipu == stage.ipu and 0 <= tick - other.index < pipeline.micro_batches
    ]
    return sum(ticks[:tick]) + sum(earlier)


def test_the_pipeline_view_is_there_only_with_a_pipeline(page: Page, tmp_path: Path) -> None:
    page.open()
    script = "return [...document.querySelectorAll('nav a')].map((link) => link.dataset.view)"
    assert page.run(script) == list(VIEWS)
    alone = Page(page.driver, write_html(build_profile(make_cnn_plan()), tmp_path / "alone.html"))
    alone.open("#view=pipeline")
    assert alone.text("h1") == "resnet"
    assert "pipeline" not in alone.run(script)


def test_the_pipeline_has_the_figures_of_the_plan(page: Page, plan: Plan) -> None:
    page.open("#view=pipeline")
    summary = summarise(plan).pipeline
    assert summary is not None
    assert page.text("h1") == "Pipeline"
    assert page.text("#finding") == summary.finding
    figures = page.text(".figures")
    assert format_share(summary.bubble_share) in figures
    assert f"{format_cycles(summary.steady_cycles)} cycles" in figures
    assert f"{format_cycles(summary.total_cycles)} cycles" in figures
    assert "6 fill, 10 steady, 6 drain" in figures
    assert page.count_colours() >= 5


def test_every_stage_has_a_row_with_its_cycles_and_its_ipus_peak(page: Page, plan: Plan) -> None:
    page.open("#view=pipeline")
    assert plan.pipeline is not None
    rows = page.rows("#stages")
    assert [row[0] for row in rows] == [
        *(f"{stage} forward" for stage in range(3)),
        "3 forward and backward",
        *(f"{stage} backward" for stage in (2, 1, 0)),
    ]
    assert [row[2] for row in rows] == [format_cycles(stage.cycles) for stage in plan.pipeline.stages]
    peak = int(plan.memory[3].peak.max()) / 1024
    assert rows[3][5] == (f"{peak:.0f} KiB" if peak >= 100 else f"{peak:.1f} KiB")
    loads = summarise(plan).pipeline.ipus  # type: ignore[union-attr]
    assert [row[6] for row in page.rows("#loads")] == [format_share(load.bubble_share) for load in loads]


def test_a_micro_batch_chosen_by_link_tells_when_it_enters_and_leaves(page: Page, plan: Plan) -> None:
    page.open("#view=pipeline&batch=5&stage=4")
    pipeline = plan.pipeline
    assert pipeline is not None
    first, last = start_of_block(pipeline, 0, 5), start_of_block(pipeline, 6, 5) + pipeline.stages[6].cycles
    assert page.fact("#batch-facts", "Enters at cycle").startswith(format_cycles(first))
    assert page.fact("#batch-facts", "Leaves at cycle").startswith(format_cycles(last))
    here = start_of_block(pipeline, 4, 5)
    assert page.fact("#batch-details", "Begins at cycle").startswith(format_cycles(here))
    assert page.attribute("canvas", "aria-valuenow") == "5"


def test_a_click_on_a_block_follows_its_micro_batch_and_keys_go_on(page: Page, plan: Plan) -> None:
    page.open("#view=pipeline")
    pipeline = plan.pipeline
    assert pipeline is not None
    whole = pipeline.total_cycles + plan.timing.update_cycles
    middle = start_of_block(pipeline, 3, 8) + pipeline.stages[3].cycles / 2
    width, height = page.run("const box = document.querySelector('canvas'); return [box.clientWidth, box.clientHeight]")
    page.click_canvas((78 + middle / whole * (width - 86)) / width, (46 + 3.5 * 42) / height)
    assert page.run("return location.hash") == "#view=pipeline&batch=8&stage=3"
    page.find("canvas").send_keys(Keys.ARROW_RIGHT)
    assert page.text("#batch-details h2") == "Micro-batch 9"
    page.click_canvas((78 + 0.99 * (width - 86)) / width, (46 + 0.5 * 42) / height)  # the update: no micro-batch
    assert page.run("return document.querySelector('#batch-details').children.length") == 0


def test_a_long_pipeline_leaves_out_its_middle_until_asked_for_all_ticks(long_page: Page) -> None:
    page = long_page
    page.open("#view=pipeline")
    assert page.count_colours() >= 5
    cut = page.run("return document.querySelector('canvas').toDataURL()")
    page.find("#all-ticks").click()
    page.settle()
    assert page.run("return document.querySelector('canvas').toDataURL()") != cut
    assert page.run("return location.hash") == "#view=pipeline&ticks=all"


def test_a_stage_leads_to_its_steps_in_the_trace_of_its_ipu(page: Page, plan: Plan) -> None:
    page.open("#view=pipeline")
    page.run("document.querySelectorAll('#stages .pick')[4].click()")  # stage 2 backward
    page.wait_until("return document.body.dataset.view === 'trace'")
    page.settle()
    assert page.text("#op-details h2") == "stage 2 backward"
    assert page.attribute("select", "value") == "2"
    assert plan.pipeline is not None
    assert page.fact("#op-details", "Cycles") == format_cycles(plan.pipeline.stages[4].cycles)


def test_updates_of_the_ipus_run_side_by_side_in_the_trace(page: Page, plan: Plan) -> None:
    page.open("#view=trace")
    assert plan.pipeline is not None
    whole = sum(stage.cycles for stage in plan.pipeline.stages) + plan.timing.update_cycles
    assert f"{format_cycles(whole)} cycles" in page.text(".lead")


def test_the_trace_opens_at_an_ipu_by_link_and_changes_it_by_click(page: Page) -> None:
    page.open("#view=trace&ipu=2")
    assert page.attribute("select", "value") == "2"
    assert "IPU 2" in page.text(".legend")
    height = page.run("return document.querySelector('canvas').clientHeight")
    page.click_canvas(0.015, (26 + 1.4 * 35) / height)  # the name of IPU 1
    assert page.attribute("select", "value") == "1"
    assert "ipu=1" in page.run("return location.hash")
    assert page.count_colours() >= 6


def test_an_op_chosen_by_link_opens_the_trace_of_its_ipu(page: Page, plan: Plan) -> None:
    op = next(op for op in plan.ops if op.ipu == 3)
    page.open(f"#view=trace&op={op.index}")
    assert page.attribute("select", "value") == "3"
    assert page.fact("#op-facts", "IPU, stage") == "3, 3"


def test_memory_shows_all_ipus_and_opens_the_one_that_is_clicked(page: Page, plan: Plan) -> None:
    page.open("#view=memory&ipu=0")
    charts = page.run("return [...document.querySelectorAll('#ipu-charts button')].map((one) => one.innerText)")
    assert len(charts) == 4
    for text, memory in zip(charts, plan.memory, strict=True):
        assert f"max {format_bytes(int(memory.peak.max()))}" in text
        assert "fits" in text
    page.run("document.querySelectorAll('#ipu-charts button')[2].click()")
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(int(plan.memory[2].peak.max())))
    assert "pipeline stash" in page.text("#tile-breakdown")
    pressed = "return [...document.querySelectorAll('#ipu-charts button')].map((one) => one.ariaPressed)"
    assert page.run(pressed) == ["false", "false", "true", "false"]
    page.run("location.hash = '#view=memory&ipu=1&tile=40'")
    page.settle()
    assert page.fact("#tile-breakdown", "Total").startswith(format_bytes(int(plan.memory[1].peak[40])))


def test_the_summary_has_a_verdict_on_each_ipu(page: Page, tmp_path: Path) -> None:
    page.open()
    assert [row[1] for row in page.rows("#ipus")] == ["fits"] * 4
    assert "See the pipeline" in page.text("#pipeline-line")
    big = make_pipelined_plan(width=11_000)
    other = Page(page.driver, write_html(build_profile(big), tmp_path / "big.html"))
    other.open()
    verdicts = [row[1] for row in other.rows("#ipus")]
    assert verdicts == ["fits"] * 3 + [f"{format_bytes(big.fit.bytes_over)} over on {big.fit.tiles_over:,} tiles"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_telephone_needs_no_sideways_scrolling_and_controls_have_names(page: Page, view: str) -> None:
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.open(f"#view={view}")
        assert page.run("return document.documentElement.scrollWidth") <= 390
        unnamed = page.run(
            "return [...document.querySelectorAll('button, input, select, canvas, a')].filter((element) =>"
            "  !(element.textContent.trim() || element.getAttribute('aria-label') || element.labels?.length)).length"
        )
        assert unnamed == 0
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("view", ["memory", "trace", "pipeline"])
def test_canvases_follow_the_theme(page: Page, view: str) -> None:
    page.open(f"#view={view}")
    script = (
        "return [...document.querySelectorAll('canvas')].filter((canvas) => canvas.offsetParent)"
        ".map((canvas) => canvas.toDataURL())"
    )
    before = page.run(script)
    page.find("#theme").click()
    page.settle()
    after = page.run(script)
    page.find("#theme").click()
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_ipus_without_a_pipeline_still_have_lanes_and_verdicts(driver: webdriver.Chrome, tmp_path: Path) -> None:
    plan = dataclasses.replace(make_pipelined_plan(), pipeline=None)
    page = Page(driver, write_html(build_profile(plan), tmp_path / "sharded.html"))
    for view in VIEWS:
        page.open(f"#view={view}")
    page.open("#view=trace&ipu=3")
    assert page.attribute("select", "value") == "3"
    assert page.severe_log() == []
