"""The pictures of the documentation: each is made by a command that the documentation names."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

REPOSITORY = Path(__file__).parents[2]
OTHERS = {"fidelity"}  # pictures of no report: tools/draw_fidelity.py


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_screenshots", REPOSITORY / "tools/draw_screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["draw_screenshots"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_of_a_report_has_a_command_and_is_shown(tool: ModuleType) -> None:
    stored = {file.stem for file in (REPOSITORY / "docs/images").glob("*.png")}
    assert set(tool.PICTURES) | OTHERS == stored
    pages = "".join(page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs").glob("*.md"))
    assert set(re.findall(r"images/(\w+)\.png", pages)) == stored


def test_the_documentation_names_the_command_behind_each(tool: ModuleType) -> None:
    page = (REPOSITORY / "docs/report.md").read_text(encoding="utf-8")
    for command in tool.REPORTS.values():
        assert f"`{command}`" in page
    assert {name for picture in tool.PICTURES.values() for name in picture.report.split("+")} == set(tool.REPORTS)


def test_pictures_are_small(tool: ModuleType) -> None:
    for name, picture in tool.PICTURES.items():
        file = REPOSITORY / "docs/images" / f"{name}.png"
        assert Image.open(file).size == (tool.SIZE[0], picture.height), f"{name}: make screenshots"
        assert file.stat().st_size < 120_000, name
