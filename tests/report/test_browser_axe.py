"""Accessibility: axe-core finds nothing to object to in any view, in either theme, wide or on a phone."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from advice_factory import make_advice, make_oversized_profile
from browser_page import Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver

from openipu.report import build_profile, write_html

pytestmark = [pytest.mark.browser, needs_browser]

PACKAGE = "axe_core_python"  # carries axe.min.js; nothing of it is in openipu
axe: Any = importlib.import_module(PACKAGE)

RUN = (
    "const done = arguments[0];"
    "axe.run(document).then((found) => done(found.violations.map((rule) =>"
    " `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 90)).join(' | ')}`)), (bad) => done([String(bad)]))"
)
VIEWS = (
    "summary insights memory memory&shown=plan liveness programs trace pipeline operations operations&group=layer graph"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("axe")
    pipelined, cnn = build_profile(make_pipelined_plan()), build_profile(make_cnn_plan())
    return {
        "pipelined": write_html(pipelined, folder / "pipelined.html"),
        "misfit": write_html(make_oversized_profile(make_advice()), folder / "misfit.html"),
        "compared": write_html(cnn, folder / "compared.html", pipelined),
    }


def find_violations(
    driver: webdriver.Chrome, path: Path, view: str, size: str = "1280", dark: bool = False
) -> list[str]:
    page = Page(driver, path)
    page.resize(size)
    try:
        page.open(f"#view={view}")
        if dark:
            page.run(  # at once: colours on their way from one theme to the other belong to neither
                "document.head.append(Object.assign(document.createElement('style'),"
                " {textContent: '* { transition: none !important; }'}));"
                "document.documentElement.dataset.theme = 'dark'"
            )
            page.settle()
        driver.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        found: list[str] = driver.execute_async_script(RUN)
        return found
    finally:
        page.resize(None)


@pytest.mark.parametrize("view", VIEWS.split())
def test_no_view_has_a_violation(driver: webdriver.Chrome, pages: dict[str, Path], view: str) -> None:
    assert find_violations(driver, pages["pipelined"], view) == []


@pytest.mark.parametrize(
    ("page", "view"), [("misfit", "insights"), ("compared", "summary"), ("compared", "operations")]
)
def test_levers_and_comparisons_have_none_either(
    driver: webdriver.Chrome, pages: dict[str, Path], page: str, view: str
) -> None:
    assert find_violations(driver, pages[page], view) == []


@pytest.mark.parametrize(("size", "dark"), [("phone", False), ("1920", True)])
def test_a_phone_and_the_dark_theme_have_none_either(
    driver: webdriver.Chrome, pages: dict[str, Path], size: str, dark: bool
) -> None:
    for view in ("summary", "memory", "trace"):
        assert find_violations(driver, pages["pipelined"], view, size, dark) == []


def test_a_violation_would_be_found(driver: webdriver.Chrome, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><html><title>x</title><h1>x</h1><input><img src='data:,'></html>", encoding="utf-8")
    rules = {entry.split(":")[0] for entry in find_violations(driver, bad, "summary")}
    assert {"label", "image-alt", "html-has-lang"} <= rules
