"""The API page says what the code says."""

import importlib.util
from pathlib import Path

import popart
import poptorch
from popart._options import EFFECTS
from poptorch.options import TABLE

DOCS = Path(__file__).parents[2] / "docs"


def load_generator(name="generate_api"):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
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


def test_the_page_of_popart_names_everything_that_is_public_and_every_option_with_its_effect():
    page = (DOCS / "popart_api.md").read_text(encoding="utf-8")
    words = load_generator("generate_popart_api").WORDS
    for name in popart.__all__:
        assert f"`popart.{name}" in page or not callable(getattr(popart, name)), name
    lines = page.partition("## SessionOptions")[2].partition("\n## ")[0].splitlines()
    for name, (_, effect, _) in EFFECTS.items():
        (line,) = [line for line in lines if line.startswith(f"| `{name}` |")]
        assert f"| {words[effect]} |" in line, f"{name}: run python docs/generate_popart_api.py"


def test_what_the_page_of_popart_lacks_is_not_there():
    for name in load_generator("generate_popart_api").LACKS:
        assert not hasattr(popart, name), f"popart.{name} is there: take it out of the list"


def test_the_page_of_the_garden_is_up_to_date():
    page = (DOCS / "garden.md").read_text(encoding="utf-8")
    assert page == load_generator("generate_garden").build_page(), "run: python docs/generate_garden.py"
