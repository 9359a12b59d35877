"""A report in a real browser: what the browser tests open, read, click and press."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER) and not os.environ.get("CI"), reason="needs Chromium and its driver"
)
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900"
)
MOST_DRAWN = 100  # times that an element is found again
SIZES = {"1280": (1280, 900), "1920": (1920, 1080), "phone": (390, 844)}


class Page:
    """One report in the browser."""

    def __init__(self, driver: webdriver.Chrome, path: Path) -> None:
        self.driver, self.path = driver, path

    def open(self, link: str = "") -> None:
        """Load the file anew, as a link from elsewhere would."""
        self.driver.get("about:blank")
        self.driver.get(self.path.as_uri() + link)
        self.wait_until("return document.querySelector('h1') !== null")
        self.settle()

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait_until(self, script: str) -> None:
        WebDriverWait(self.driver, 300, poll_frequency=0.05).until(lambda driver: driver.execute_script(script))

    def settle(self) -> None:
        """Wait until two frames were painted."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def resize(self, size: str | None) -> None:
        """To one of `SIZES`, or back to that of the window."""
        if size is None:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            return
        width, height = SIZES[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(self._read(selector, lambda element: element.text))

    def attribute(self, selector: str, name: str) -> Any:
        return self._read(selector, lambda element: element.get_attribute(name))

    def _read(self, selector: str, read: Callable[[Any], Any]) -> Any:
        """What an element says. A view may draw it anew between finding and reading it: then it is found again."""
        for _ in range(MOST_DRAWN):
            try:
                return read(self.find(selector))
            except StaleElementReferenceException:
                continue
        raise AssertionError(f"{selector} is drawn anew again and again")

    def fact(self, selector: str, name: str) -> str:
        """The value beside a name in a list of facts."""
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' div')]"
            ".find((row) => row.children[0].textContent === arguments[1])?.children[1].textContent"
        )
        return str(self.run(script, selector, name))

    def rows(self, selector: str) -> list[list[str]]:
        script = (
            "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
            ".map((row) => [...row.children].map((cell) => cell.textContent))"
        )
        found: list[list[str]] = self.run(script, selector)
        return found

    def count_colours(self) -> int:
        """How many colours with more than a few pixels the canvas shows: a blank one has one at most."""
        return int(
            self.run(
                "const canvas = document.querySelector('canvas');"
                "const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
                "const counts = new Map();"
                "for (let at = 0; at < data.length; at += 4) {"
                "  if (!data[at + 3]) continue;"
                "  const key = data[at] * 65536 + data[at + 1] * 256 + data[at + 2];"
                "  counts.set(key, (counts.get(key) ?? 0) + 1);"
                "}"
                "return [...counts.values()].filter((count) => count > 150).length"
            )
        )

    def count_shades(self, selector: str) -> int:
        """How many colours one canvas has, however few pixels they take."""
        script = (
            "const canvas = document.querySelector(arguments[0]);"
            "const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
            "const shades = Array.from({length: data.length / 4}, (_, at) => data.slice(4 * at, 4 * at + 3).join());"
            "return new Set(shades).size"
        )
        return int(self.run(script, selector))

    def click_canvas(self, share_x: float, share_y: float) -> None:
        canvas = self.find("canvas")
        size = canvas.size
        offset = (round(size["width"] * (share_x - 0.5)), round(size["height"] * (share_y - 0.5)))
        ActionChains(self.driver, duration=0).move_to_element_with_offset(canvas, *offset).click().perform()
        self.settle()

    def severe_log(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def start_browser(profile: Path) -> webdriver.Chrome:
    """Chromium without a window, with its data in a directory of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(DRIVER), options=options)
    driver.set_script_timeout(300)  # a guard against hangs, not a speed: the machine may be busy
    return driver
