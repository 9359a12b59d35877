"""The documentation as a site: built without a complaint, grouped, and searched in a browser from disk."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_page import needs_browser, start_browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import WebDriverWait

REPOSITORY = Path(__file__).parents[2]
DIALOG = "[...document.querySelectorAll('*')].find((one) => one.shadowRoot?.querySelector('dialog'))?.shadowRoot"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout, built elsewhere."""
    place = tmp_path_factory.mktemp("site")
    shutil.copy(REPOSITORY / "mkdocs.yml", place)
    shutil.copytree(REPOSITORY / "docs", place / "docs")
    builder = Path(sysconfig.get_path("scripts")) / "zensical"
    done = subprocess.run([builder, "build", "--strict"], cwd=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([sys.executable, REPOSITORY / "tools/finish_site.py", place / "site"], check=True)
    return place / "site"


def list_pages() -> list[str]:
    """Pages of the navigation."""
    return re.findall(r"- (\w+)\.md$", (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(list_pages()) == sorted(file.stem for file in (REPOSITORY / "docs").glob("*.md"))


def test_the_site_has_the_pages_and_nothing_that_made_them(site: Path) -> None:
    assert {f"{page}.html" for page in list_pages()} <= {file.name for file in site.iterdir()}
    assert not [*site.glob("*.py"), *site.glob("*_names.json")]


def open_from_disk(site: Path) -> str:
    return (site / "index.html").as_uri()


def open_from_server(site: Path) -> str:
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/index.html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """The tests' output is theirs."""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    started = start_browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()


@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("open_search", [open_from_disk, open_from_server], ids=["disk", "server"])
def test_the_search_finds_a_page_and_leads_there(site: Path, driver: Any, open_search: Callable[[Path], str]) -> None:
    def wait(script: str, *arguments: object) -> Any:
        return WebDriverWait(driver, 120, 0.1).until(lambda found: found.execute_script(script, *arguments))

    address = open_search(site)
    driver.get(address)
    wait("return document.querySelector('.md-search__button') !== null")
    driver.find_element("css selector", ".md-search__button").click()
    wait(f"return !!{DIALOG}?.querySelector('input')")
    wait(f"{DIALOG}.querySelector('input').focus(); return true")
    ActionChains(driver).send_keys("liveness").perform()
    found = f"[...{DIALOG}.querySelectorAll('a')].map((one) => one.href)"
    link = wait(f"return {found}.find((one) => one.endsWith('/report.html#memory-and-liveness'))")
    driver.get(link)
    assert driver.title.startswith("The report")
    severe = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not severe, severe


@needs_browser
@pytest.mark.browser
def test_the_navigation_is_grouped(site: Path, driver: Any) -> None:
    driver.get((site / "quickstart.html").as_uri())
    text = driver.execute_script("return document.querySelector('.md-nav--primary').textContent")
    for group in ("Start", "See it", "PyTorch", "TensorFlow and Keras", "Plan and explore", "How far to trust it"):
        assert group in text
