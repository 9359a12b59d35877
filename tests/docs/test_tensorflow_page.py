"""The tables of TensorFlow's options are the code's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tables_of_options_and_flags_are_up_to_date():
    spec = importlib.util.spec_from_file_location("generate_tensorflow", DOCS / "generate_tensorflow.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    page = (DOCS / "tensorflow1.md").read_text(encoding="utf-8")
    assert generator.build_page(page) == page, "run python docs/generate_tensorflow.py"
