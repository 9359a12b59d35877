"""The live page in a real browser, beside a real script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_page import SIZES, needs_browser
from live_script import Script
from selenium.webdriver.support.ui import WebDriverWait
from test_browser_axe import RUN, axe

pytestmark = [needs_browser, pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    started = Script(tmp_path, "--profile", "out")
    yield started
    started.close()


def test_a_real_browser_sees_a_real_script_compile_run_and_end(script: Script, driver: Any) -> None:
    def wait_for(text: str, selector: str = "body") -> None:
        look = "return document.querySelector(arguments[0])?.textContent.includes(arguments[1])"
        WebDriverWait(driver, 120, 0.05).until(lambda found: found.execute_script(look, selector, text))

    assert script.read_line() == "begun"
    driver.get(script.address)
    wait_for("No IPU program has been compiled yet.")
    assert driver.find_element("id", "script").text == "train.py"
    script.go_on()
    assert script.read_line() == "trained"
    wait_for("training", ".program h2")
    wait_for("fits", ".program .head")
    facts = driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('dl div')].map("
        "(row) => [...row.children].map((cell) => cell.textContent)))"
    )
    assert facts["calls"] == "3"
    assert re.fullmatch(r"[\d.]+ KiB of 589 KiB", facts["fullest tile, modelled"])
    assert {"one call, modelled", "one call, measured", "throughput, measured", "compiled in"} <= facts.keys()
    assert driver.execute_script("return document.querySelectorAll('svg path').length") == 1
    for width, height in SIZES.values():
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 1000}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), width
        driver.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        assert driver.execute_async_script(RUN) == []
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    # The report, from the profile that lies there already.
    address = driver.find_element("css selector", ".program a").get_attribute("href")
    page = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(address)
    WebDriverWait(driver, 120, 0.05).until(lambda found: found.execute_script("return !!document.querySelector('h1')"))
    assert "training" in driver.title
    driver.close()
    driver.switch_to.window(page)
    script.go_on()
    wait_for("ended with exit code 7", "#state")
    output, _ = script.process.communicate(timeout=120)
    assert (script.process.returncode, output) == (7, "done\n"), "as plain Python has them"
    assert driver.execute_script("return document.querySelectorAll('.program a').length") == 0, "nobody serves it now"
    severe = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not severe, severe
    assert sorted(entry.name for entry in script.folder.iterdir()) == ["errors.txt", "out", "train.py"]
