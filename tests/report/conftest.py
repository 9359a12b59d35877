"""Lets the tests of this folder import what stands beside them, and starts one browser for all of them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from browser_page import start_browser

    started = start_browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.quit()
