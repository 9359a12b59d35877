"""Names that would break a careless page are shown as text in every view."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from browser_page import Page, needs_browser
from plan_factory import make_cnn_plan
from selenium import webdriver

from openipu.graph import SourceLine
from openipu.plan.types import Plan
from openipu.report import read_profile, write_html, write_profile

pytestmark = [pytest.mark.browser, needs_browser]

HOSTILE = {
    "html": '<img src=x onerror="window.broken=1"><script>window.broken=1</script>',
    "quotes": "it's \"quoted\" `${1+1}` </script> & &amp; \\ '",
    "emoji": "layer 🧠🔥 ünïcode \u202e עברית",
    "long": "x" * 10_000,
}
VIEWS = ("summary", "insights", "memory", "liveness", "programs", "trace", "operations", "graph")


def rename(plan: Plan, name: str) -> Plan:
    """The plan with this name on everything that has one."""
    ops = tuple(
        dataclasses.replace(op, name=name, op=name, module=name, line=SourceLine(name, 3, name), basis=name)
        for op in plan.ops
    )
    steps = tuple(dataclasses.replace(step, name=name) for step in plan.steps)
    variables = tuple(dataclasses.replace(variable, name=name) for variable in plan.variables)
    return dataclasses.replace(
        plan, name=name, ops=ops, steps=steps, variables=variables, warnings=(name,), guessed_ops={name: 3}
    )


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_name_is_text_in_every_view(driver: webdriver.Chrome, tmp_path: Path, kind: str) -> None:
    name = HOSTILE[kind]
    plan = rename(make_cnn_plan(), name)
    profile = read_profile(write_profile(plan, tmp_path))
    page = Page(driver, write_html(profile, tmp_path / "report.html", profile))
    driver.get_log("browser")
    for view in VIEWS:
        page.open(f"#view={view}&op=3" if view in ("trace", "graph") else f"#view={view}")
        assert page.run("return window.broken === undefined && !document.querySelector('main img, main script')"), view
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), view
    page.open("#view=programs&step=5")
    shown = page.run("return document.getElementById('program-details').textContent")
    assert name[:80] in shown
    page.open()
    assert page.run("return document.querySelector('h1').textContent").startswith(name[:150])
    page.find("#find-all").send_keys("step 5")
    assert page.severe_log() == []
