"""The views of one report in a real browser: insights, tree, groups, map of tiles, graph, search and export."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_page import Page, needs_browser
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from test_browser_models import plan_example

from openipu.plan import Plan
from openipu.report import Profile, build_profile, find_insights, read_profile, write_html, write_profile
from openipu.report.units import format_bytes, format_cycles, format_share

pytestmark = [pytest.mark.browser, needs_browser]

CATCH_FILES = (
    "window.saved = []; const make = URL.createObjectURL;"
    "URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return make(blob); };"
    "HTMLAnchorElement.prototype.click = function () { window.savedName = this.download; };"
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_example("cnn")


@pytest.fixture(scope="module")
def file(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cnn")
    return write_html(read_profile(write_profile(plan, folder)), folder / "report.html")


@pytest.fixture
def page(driver: webdriver.Chrome, file: Path) -> Iterator[Page]:
    opened = Page(driver, file)
    driver.get_log("browser")
    yield opened
    assert opened.severe_log() == []


@pytest.fixture(scope="module")
def profile(plan: Plan) -> Profile:
    return build_profile(plan)


def test_insights_show_number_cause_remedy_and_lead_to_the_evidence(page: Page, profile: Profile) -> None:
    page.open("#view=insights")
    findings = find_insights(profile)
    assert page.run("return [...document.querySelectorAll('.finding h2')].map((head) => head.textContent)") == [
        finding.title for finding in findings
    ]
    text = page.text("#insights")
    for finding in findings:
        assert finding.cause in text
        assert finding.remedy in text
    page.find(".finding .evidence a").click()
    page.settle()
    assert page.text("h1") in ("Execution trace", "Liveness")
    page.open("#view=insights&filter=float32")
    assert len(page.driver.find_elements("css selector", ".finding")) == sum("float32" in f.title for f in findings)


def test_the_program_tree_opens_to_a_step_by_link_and_tells_what_it_runs(page: Page, profile: Profile) -> None:
    step = next(i for i, kind in enumerate(profile.steps.kind) if kind == "compute" and profile.steps.vertex[i])
    page.open(f"#view=programs&step={step}")
    assert page.fact("#program-facts", "Type") == "OnTileExecute"
    assert page.fact("#program-facts", "Steps") == f"{step:,}"
    assert page.fact("#program-facts", "Vertex").startswith(profile.steps.vertex[step])
    same = int((profile.steps.program == profile.steps.program[step]).sum())
    assert page.fact("#program-facts", "Program").startswith(f"{profile.steps.program[step]:,}, run by {same} step")
    assert page.attribute(".tree-row.chosen", "aria-selected") == "true"


def test_the_program_tree_answers_keys_as_trees_do(page: Page) -> None:
    page.open("#view=programs")
    tree = page.find("#program-tree")
    count = "return document.querySelectorAll('.tree-row').length"
    tree.send_keys(Keys.HOME)
    assert page.run(count) > 5  # as many levels are open as one sees at a glance
    tree.send_keys(Keys.ARROW_LEFT)
    assert page.run(count) == 1
    tree.send_keys(Keys.ARROW_RIGHT)
    assert page.run(count) > 5
    assert page.attribute(".tree-row.chosen", "aria-expanded") == "true"
    tree.send_keys(Keys.ARROW_DOWN, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert page.attribute(".tree-row.chosen", "aria-level") == "1"
    assert tree.get_attribute("aria-activedescendant") == "tree-row-0"


def test_search_in_the_tree_visits_the_steps_of_an_op(page: Page, profile: Profile) -> None:
    page.open("#view=programs")
    page.find("#search").send_keys("max_pool2d_with_indices_backward")
    ops = [op for op in profile.ops if "max_pool2d_with_indices_backward" in op.op]
    assert page.text("#found") == f"{sum(op.step_count for op in ops)} steps"
    page.find("#search").send_keys(Keys.ENTER)
    assert page.fact("#program-facts", "Steps") == f"{min(op.first_step for op in ops):,}"


@pytest.mark.parametrize("group", ["line", "module", "family"])
def test_ops_add_up_by_group_with_the_cycles_of_the_profile(page: Page, profile: Profile, group: str) -> None:
    page.open(f"#view=operations&group={group}")
    sums: dict[str, float] = defaultdict(float)
    for op in profile.ops:
        sums[str(getattr(op, group) or "")] += op.cycles * profile.executions(op.phase)
    rows = page.rows("#operations")
    assert len(rows) == len(sums)
    largest = max(sums.values())
    assert rows[0][3] == format_cycles(largest)
    assert rows[0][2].startswith(format_share(largest / profile.timing.call_cycles))


def test_a_group_opens_into_its_ops_and_closes_again(page: Page, profile: Profile) -> None:
    page.open("#view=operations&group=module")
    page.find("#operations .pick").click()
    page.settle()
    chosen = page.run("return new URLSearchParams(location.hash.slice(1)).get('only')")
    assert len(page.rows("#operations")) == sum(op.module == chosen for op in profile.ops)
    page.find("#within button").click()
    assert page.run("return document.getElementById('group').value") == "module"


def test_every_table_leaves_as_csv_and_json(page: Page, profile: Profile) -> None:
    for view in ("summary", "insights", "memory", "liveness", "programs", "operations"):
        page.open(f"#view={view}")
        missing = page.run(
            "return [...document.querySelectorAll('.table')].filter((table) => table.querySelector('tbody tr') &&"
            " !(table.querySelector('.save-csv') && table.querySelector('.save-json'))).length"
        )
        assert missing == 0, view
    page.open("#view=operations&group=family")
    page.run(CATCH_FILES + "document.querySelector('.save-json').click(); document.querySelector('.save-csv').click();")
    page.wait_until("return window.saved.length === 2")
    document, table = page.run("return window.saved")
    rows = {row["family"]: row for row in json.loads(document)}
    expected = sum(op.cycles * profile.executions(op.phase) for op in profile.ops if op.family == "matmul")
    assert rows["matmul"]["cycles"] == pytest.approx(expected)
    assert table.splitlines()[0].startswith("family,ops,share,cycles,microseconds")
    assert len(table.splitlines()) == 1 + len(rows)
    assert page.run("return window.savedName") == "WithClassLoss-operations-by-family.csv"


def test_the_floor_plan_shows_tiles_and_chosen_ones_stand_side_by_side(page: Page, plan: Plan) -> None:
    page.open("#view=memory&shown=plan&tiles=5,700,1400")
    heads = page.run("return [...document.querySelectorAll('#tile-columns thead th')].map((head) => head.textContent)")
    assert heads == ["Memory", "Tile 5", "Tile 700", "Tile 1400", "Difference"]
    total = page.rows("#tile-columns")[0]
    assert total[1:4] == [format_bytes(int(plan.memory[0].peak[tile])) for tile in (5, 700, 1400)]
    box = page.find(".plan-canvas")
    cell = page.run("return Math.min(22, arguments[0].clientWidth / 64)", box)
    size = box.size
    place = (10.5 * cell - size["width"] / 2, 2.5 * cell - size["height"] / 2)  # third row, eleventh tile
    ActionChains(page.driver, duration=0).move_to_element_with_offset(
        box, round(place[0]), round(place[1])
    ).click().perform()
    assert page.run("return document.getElementById('tile').value") == str(2 * 64 + 10)
    assert "tiles" not in page.run("return location.hash")


def test_the_floor_plan_of_a_variable_shows_where_it_lies(page: Page, plan: Plan) -> None:
    variable = max((v for v in plan.variables if v.always_live), key=lambda v: v.mapping.total_bytes)
    page.open(f"#view=memory&shown=plan&variable={variable.index}")
    assert page.run("return document.getElementById('plan-colour').value") == f"variable {variable.index}"
    page.run("document.getElementById('plan-colour').value = ''")
    assert page.run("return document.querySelector('.plan-canvas').clientHeight") > 100


def test_steps_stand_side_by_side_with_what_changed(page: Page, plan: Plan) -> None:
    first, second = 10, plan.fit.peak_step
    page.open(f"#view=liveness&steps={first},{second}")
    row = page.rows("#step-columns")[0]
    live = plan.memory[0].live_by_step
    assert row[:3] == ["not always live", format_bytes(int(live[first])), format_bytes(int(live[second]))]
    assert f"steps={first}%2C{second}" in page.run("return location.hash")
    page.find("canvas").send_keys(Keys.ARROW_RIGHT)
    assert page.text("#step-details h2") == f"Step {second + 1}"


def test_the_graph_leads_from_an_op_to_those_that_it_reads_from(page: Page, profile: Profile) -> None:
    op = next(op for op in profile.ops if op.op == "aten.max_pool2d_with_indices.default")
    page.open(f"#view=graph&op={op.index}")
    assert page.fact("#node-facts", "Op") == op.op
    assert page.fact("#node-facts", "Cycles in a call") == format_cycles(op.cycles * profile.executions(op.phase))
    writers = {v: other.index for other in profile.ops[: op.index] for v in other.writes}
    sources = {profile.ops[writers[v]].op for v in op.reads if v in writers}
    shown = {row[0] for row in page.rows("#graph-details .table:nth-of-type(1)")}
    assert sources
    assert {name.removeprefix("aten.").removesuffix(".default") for name in sources} <= shown
    page.find(".graph-canvas").send_keys(Keys.ARROW_UP)
    assert page.fact("#node-facts", "Op") in sources
    assert page.count_colours() >= 3


def test_the_graph_opens_and_closes_modules_and_zooms(page: Page) -> None:
    page.open("#view=graph")
    canvas = page.find(".graph-canvas")
    image = "return document.querySelector('.graph-canvas').toDataURL()"
    before = page.run(image)
    canvas.send_keys("+")
    page.settle()
    assert page.run(image) != before
    page.find("button[aria-label='Close every module']").click()
    page.settle()
    canvas.send_keys(Keys.ARROW_DOWN)
    assert page.fact("#node-facts", "Module") == "forward"
    canvas.send_keys(Keys.ENTER)
    page.settle()
    assert page.fact("#node-facts", "Module") != "forward"


def test_one_box_finds_everything_and_slash_leads_to_it(page: Page, profile: Profile) -> None:
    page.open()
    page.find("#main").send_keys("/")
    assert page.run("return document.activeElement.id") == "find-all"
    box = page.find("#find-all")
    box.send_keys("convolution_backward")
    assert "Ops" in page.text("#hits")
    box.send_keys(Keys.ENTER)
    page.settle()
    assert page.fact("#op-facts", "Op") == "aten.convolution_backward.default"
    for words, link in (("tile 700", "view=memory&tile=700"), ("step 12", "view=liveness&step=12")):
        box.clear()
        box.send_keys(words, Keys.ENTER)
        page.settle()
        assert link in page.run("return location.hash")
    weight = max((v for v in profile.variables if v.kind == "parameter"), key=lambda v: v.total_bytes)
    box.clear()
    box.send_keys(weight.name)
    assert weight.name in page.text("#hits")
    box.send_keys(Keys.ESCAPE)
    assert not page.find("#hits").is_displayed()


def test_long_tables_filter(page: Page, plan: Plan) -> None:
    page.open(f"#view=memory&tile={plan.fit.peak_tile}")
    box = page.find("#tile-variables .table-filter")
    box.send_keys("parameter")
    rows = page.rows("#tile-variables")
    assert rows
    assert {row[3] for row in rows} == {"parameter"}
