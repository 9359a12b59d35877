"""The pages of Paddle's options and names are the code's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_paddle", DOCS / "generate_paddle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_paddles_options_is_up_to_date(generator):
    page = (DOCS / "paddle.md").read_text(encoding="utf-8")
    assert generator.build_page(page) == page


def test_the_page_of_paddles_names_is_up_to_date(generator):
    page = (DOCS / "paddle_api.md").read_text(encoding="utf-8")
    assert generator.build_api_page() == page, "run python docs/generate_paddle.py"


def test_every_listed_member_says_what_it_is(generator):
    page = (DOCS / "paddle_api.md").read_text(encoding="utf-8")
    assert not [line for line in page.splitlines() if line.startswith("| `") and line.endswith("|  |")]
