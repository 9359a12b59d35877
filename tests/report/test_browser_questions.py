"""Ten questions that people ask a profiler, each answered by the clicks that docs/report.md lists: at most three."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from advice_factory import make_advice, make_oversized_profile
from browser_page import SIZES, Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver
from test_browser_models import plan_example

from openipu.report import Profile, build_profile, summarise, write_html
from openipu.report.units import format_bytes, format_cycles, format_share, format_tile_bytes

pytestmark = [pytest.mark.browser, needs_browser]

DOCS = Path(__file__).parents[2] / "docs" / "report.md"
CLICK = """
const [wanted] = arguments;
const option = [...document.querySelectorAll('#main option')].find((one) => one.textContent === wanted);
const found = [...document.querySelectorAll('nav a, #main a, #main button')]
  .find((one) => one.textContent.trim() === wanted && one.offsetParent !== null);
if (found) found.click();
else if (option) {
  option.parentElement.value = option.value;
  option.parentElement.dispatchEvent(new Event('change'));
}
return Boolean(found ?? option);
"""


def read_questions() -> dict[str, list[str]]:
    """The table of the docs: question -> what is clicked."""
    part = DOCS.read_text(encoding="utf-8").split("## Ten questions")[1].split("\n## ")[0]
    rows = re.findall(r"^\| \d+ \| (.+?) \| (.+?) \|", part, re.MULTILINE)
    return {question: re.findall(r"\*([^*]+)\*", clicks) for question, clicks in rows}


QUESTIONS = read_questions()
Profiles = dict[str, Profile]


@pytest.fixture(scope="module")
def profiles() -> Profiles:
    return {
        "too big": make_oversized_profile(make_advice()),
        "pipelined": build_profile(make_pipelined_plan()),
        "real": build_profile(plan_example("cnn")),
        "compared": build_profile(make_cnn_plan()),
    }


@pytest.fixture(scope="module")
def files(profiles: Profiles, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("questions")
    return {
        name: write_html(profile, folder / f"{name}.html", profiles["real"] if name == "compared" else None)
        for name, profile in profiles.items()
    }


def check_tensor(page: Page, profile: Profile) -> None:
    first = page.rows("#tile-variables")[0]
    assert first[:2] == [profile.fit.culprits[0].name, format_tile_bytes(profile.fit.culprits[0].bytes_on_tile)]
    assert page.text("#tile-details h2") == f"Tile {profile.fit.peak_tile}"


def check_slow_ipu(page: Page, profile: Profile) -> None:
    summary = summarise(profile).pipeline
    assert summary is not None
    assert page.text("#finding") == summary.finding
    assert f"IPU {summary.slowest.ipu}" in summary.finding
    assert page.rows("#loads")[summary.slowest.ipu][2] == format_cycles(summary.slowest.tick_cycles)


def check_recomputation(page: Page, profile: Profile) -> None:
    assert profile.advice is not None
    lever = next(lever for lever in profile.advice.levers if lever.title == "recomputation")
    row = next(row for row in page.rows("#levers") if row[0] == "recomputation")
    assert row[3] == format_bytes(lever.saved_tile_bytes)
    assert row[-1] == lever.words["poptorch"]


def check_groups(page: Page, profile: Profile, key: Callable[[int], str]) -> None:
    cycles: dict[str, float] = defaultdict(float)
    for op in profile.ops:
        cycles[key(op.index)] += op.cycles * profile.executions(op.phase)
    name = max(cycles, key=lambda each: cycles[each])
    first = page.rows("#operations")[0]
    assert first[0] == name
    assert first[3] == format_cycles(cycles[name])


def name_layer(module: str) -> str:
    indexed = re.match(r"^(.*\.\d+)(?=\.|$)", module)
    return (indexed[1] if indexed else ".".join(module.split(".")[:2])) or "no module"


def check_layer(page: Page, profile: Profile) -> None:
    check_groups(page, profile, lambda op: name_layer(profile.ops[op].module))


def check_line(page: Page, profile: Profile) -> None:
    def key(op: int) -> str:
        line = profile.ops[op].line
        return "no line" if line is None else f"{Path(line.file).name}:{line.line}"

    check_groups(page, profile, key)


def check_bubbles(page: Page, profile: Profile) -> None:
    summary = summarise(profile).pipeline
    assert summary is not None
    assert format_share(summary.bubble_share) in page.text(".figures")


def check_peak_step(page: Page, profile: Profile) -> None:
    step = profile.fit.peak_step
    assert page.text("#step-details h2") == f"Step {step:,}"
    live = [v for v in profile.variables if not v.always_live and v.first_step <= step <= v.last_step]
    largest = max(live, key=lambda variable: variable.total_bytes)
    assert page.rows("#step-variables")[0][1] == format_bytes(largest.total_bytes)


def check_vertices(page: Page, profile: Profile) -> None:
    tile = profile.fit.peak_tile
    rows = page.rows("#tile-vertices")
    kinds = {row[0]: row for row in rows}
    steps = profile.steps
    here = [
        step
        for step in range(len(steps))
        if steps.vertex[step] and (tile - int(steps.first_tile[step])) % 1472 < int(steps.tiles[step])
    ]
    assert set(kinds) == {steps.vertex[step] for step in here}
    for name, row in kinds.items():
        assert row[5] == format_bytes(profile.vertex_code_bytes[name])
    # The codelets together are what the tile keeps as vertex code.
    assert sum(profile.vertex_code_bytes[name] for name in kinds) == profile.memory[0].categories["vertexCode"][tile]


def check_call(page: Page, profile: Profile) -> None:
    assert f"In view: {format_cycles(profile.timing.call_cycles)} cycles" in page.text("#trace-range")


def check_difference(page: Page, profile: Profile) -> None:
    shown = page.rows("#trace-differences")
    assert shown
    script = (
        "return [...document.querySelectorAll('#trace-differences tbody tr')].map((row) => row.lastChild.textContent)"
    )
    assert page.run(script)[0][0] in "+−"


CHECKS: dict[str, tuple[str, Callable[[Page, Profile], None]]] = {
    "Which tensor takes most of the fullest tile at its worst step?": ("too big", check_tensor),
    "Why is one IPU slow, and which?": ("pipelined", check_slow_ipu),
    "What would recomputation save, and what would it cost?": ("too big", check_recomputation),
    "Which layer takes most of the time?": ("real", check_layer),
    "Which line of my code takes most of the time?": ("real", check_line),
    "How much of the time do the IPUs of a pipeline idle?": ("pipelined", check_bubbles),
    "What is live when memory is fullest?": ("real", check_peak_step),
    "Which vertices lie on the fullest tile, and what does their code take?": ("real", check_vertices),
    "What does a whole call execute, and in which order?": ("pipelined", check_call),
    "What changed most between two runs?": ("compared", check_difference),
}


def test_the_docs_list_ten_questions_of_at_most_three_clicks() -> None:
    assert list(QUESTIONS) == list(CHECKS)
    assert all(1 <= len(clicks) <= 3 for clicks in QUESTIONS.values())


@pytest.mark.parametrize("size", SIZES)
def test_the_clicks_of_the_docs_lead_to_the_answers(
    driver: webdriver.Chrome, files: dict[str, Path], profiles: Profiles, size: str
) -> None:
    for question, clicks in QUESTIONS.items():
        name, check = CHECKS[question]
        page = Page(driver, files[name])
        page.resize(size)
        try:
            page.open()
            for click in clicks:
                assert page.run(CLICK, click), f"{question} There is nothing to click that says “{click}”."
                page.settle()
            check(page, profiles[name])
        finally:
            page.resize(None)
        assert page.severe_log() == [], question
