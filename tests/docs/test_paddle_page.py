"""The table of options in docs/paddle.md is the code's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_paddles_options_is_up_to_date():
    spec = importlib.util.spec_from_file_location("generate_paddle", DOCS / "generate_paddle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "paddle.md").read_text(encoding="utf-8")
    assert module.build_page(page) == page
