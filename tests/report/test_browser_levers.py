"""The levers of a program that does not fit, in a real browser at three sizes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from advice_factory import NOT_TRIED, make_advice, make_oversized_profile
from browser_page import SIZES, Page, needs_browser
from selenium import webdriver
from selenium.webdriver.support.ui import Select
from test_browser_views import CATCH_FILES

from openipu.report import read_profile, write_html, write_profile
from openipu.report.profile import ProgramRecord

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("levers")
    profile = read_profile(write_profile(make_oversized_profile(make_advice()), folder))
    return write_html(profile, folder / "report.html")


@pytest.fixture
def page(driver: webdriver.Chrome, file: Path) -> Iterator[Page]:
    opened = Page(driver, file)
    driver.get_log("browser")
    yield opened
    opened.resize(None)
    assert opened.severe_log() == []


@pytest.mark.parametrize("size", SIZES)
def test_insights_begin_with_the_levers_and_say_what_was_not_tried(page: Page, size: str) -> None:
    page.resize(size)
    page.open("#view=summary")
    page.find("#verdict a[href*=insights]").click()
    page.settle()
    rows = page.rows("#levers")
    assert [row[:6] for row in rows] == [
        ["recomputation", "yes", "500 of 589 KiB", "400 KiB", "575 MiB", "+1,250"],
        ["optimizer state off chip", "no", "820 of 589 KiB", "80.0 KiB", "115 MiB", "+90,000"],
        ["half partials", "no", "910 of 589 KiB", "-10.0 KiB", "-14.4 MiB", "as many"],
    ]
    assert [row[6] for row in rows] == ["25 % slower", "53 x slower", "without an end"]
    assert page.text("#lever-verdict") == 'It fits with recomputation, 25 % slower: poptorch.set("recomputation")'
    assert page.text("#levers-not-tried") == NOT_TRIED
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    if size != "phone":  # the whole table is seen without scrolling sideways
        assert page.run(
            "const box = document.querySelector('#levers .table-scroll'); return box.scrollWidth <= box.clientWidth"
        )


def test_the_words_are_those_of_the_front_end_in_use_until_another_is_chosen(page: Page) -> None:
    page.open("#view=insights")
    assert page.rows("#levers")[0][-1] == 'poptorch.set("recomputation")'
    Select(page.find("#lever-words")).select_by_visible_text("Optimum")
    assert page.rows("#levers")[1][-1] == 'optimum.graphcore.set("optimizer state off chip")'
    assert "words=optimum.graphcore" in page.run("return location.hash")
    page.open("#view=insights&words=lightning")
    assert page.rows("#levers")[0][-1] == 'lightning.set("recomputation")'


def test_levers_leave_as_a_file_with_plain_numbers(page: Page) -> None:
    page.open("#view=insights")
    page.run(CATCH_FILES)
    page.run("document.querySelector('#levers .save-json').click()")
    page.wait_until("return window.saved.length === 1")
    first = json.loads(page.run("return window.saved[0]"))[0]
    assert (first["fits"], first["saved_tile_bytes"], first["slowdown"]) == (True, 400 * 1024, 1.25)


def test_a_misfit_without_levers_says_how_to_have_them_planned(driver: webdriver.Chrome, tmp_path: Path) -> None:
    page = Page(driver, write_html(make_oversized_profile(None), tmp_path / "report.html"))
    page.open("#view=insights")
    assert "No lever was planned again. openipu plan --profile" in page.text("#advice")
    assert page.severe_log() == []


def test_a_program_that_maps_its_tensors_itself_is_told_what_moves_them(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    plain = make_oversized_profile(None)
    main = ProgramRecord(0, "Sequence", "main", -1, 1, 0, len(plain.steps))
    page = Page(driver, write_html(dataclasses.replace(plain, tree=(main,)), tmp_path / "report.html"))
    page.open("#view=insights")
    assert "graph.setTileMapping" in page.text("#own-mapping")
    finding = page.text(".finding[data-rule='fullest-tile']")
    assert "maps its tensors and vertices to tiles itself" in finding
    assert "openipu plan" not in finding + page.text("#advice")
    assert page.severe_log() == []
