"""The API page says what the code says."""

import importlib.util
from pathlib import Path

import poptorch
from poptorch.options import TABLE

DOCS = Path(__file__).parents[2] / "docs"


def load_generator():
    spec = importlib.util.spec_from_file_location("generate_api", DOCS / "generate_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    page = (DOCS / "poptorch.md").read_text(encoding="utf-8")
    assert page == load_generator().build_page(), "run: python docs/generate_api.py"


def test_the_page_names_everything_that_is_public():
    page = load_generator().build_page()
    for name in TABLE:
        assert f"`{name}(" in page
    for name in poptorch.__all__:
        if callable(getattr(poptorch, name)):
            assert f"`poptorch.{name}" in page, name
