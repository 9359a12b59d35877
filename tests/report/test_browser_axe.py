"""Accessibility: axe-core finds nothing to object to in any view, in either theme, wide or on a phone."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from advice_factory import make_advice, make_oversized_profile
from browser_page import SIZES, Page, needs_browser
from pipelined_plan import make_pipelined_plan
from plan_factory import make_cnn_plan
from selenium import webdriver

from openipu.report import build_profile, write_html
from openipu.report.system import write_system_page
from openipu.trace.options import TraceOptions
from openipu.trace.read import HostTrace, read_trace
from openipu.trace.recorder import Recorder

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
        "compared": write_html(pipelined, folder / "compared.html", cnn),
        "system": write_system_page(record_trace(folder), folder / "system.html"),
    }


def record_trace(folder: Path) -> HostTrace:
    """Two activities, a line and a heatmap."""
    recorder = Recorder(TraceOptions(enabled=True, directory=folder))
    recorder.add_event("compile", "compile", 0, 20_000_000)
    recorder.add_event("run", "training", 25_000_000, 4_000_000, {"samples": 8})
    recorder.add_sample("Loss", "training", "nats", 2.5)
    recorder.add_histogram("weights", [0.0, 1.0, 2.0], "", [3, 4])
    recorder.close()
    return read_trace(folder)


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


def test_levers_have_none_either(driver: webdriver.Chrome, pages: dict[str, Path]) -> None:
    assert find_violations(driver, pages["misfit"], "insights") == []


@pytest.mark.parametrize("view", ["trace&call=whole", *VIEWS.split()])
def test_no_view_of_a_comparison_has_one(driver: webdriver.Chrome, pages: dict[str, Path], view: str) -> None:
    assert find_violations(driver, pages["compared"], view) == []


@pytest.mark.parametrize("size", SIZES)
def test_the_page_of_the_system_has_none(driver: webdriver.Chrome, pages: dict[str, Path], size: str) -> None:
    for dark in (False, True):
        assert find_violations(driver, pages["system"], "", size, dark) == []


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
