"""The drawing of the tree in `docs/architecture.md` shows the tree as it is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "draw_house.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("draw_house", TOOL)
    module = sys.modules["draw_house"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_folders_imports_and_the_way_of_a_batch_are_drawn_as_they_are(tool):
    drawn, real = tool.read_picture(), tool.read_house()
    assert drawn.folders == real.folders, "run python tools/draw_house.py"
    assert drawn.imports == real.imports, "run python tools/draw_house.py"
    assert drawn.walk == real.walk, "run python tools/draw_house.py"


def test_sizes_are_drawn_about_as_they_are(tool):
    drawn, real = tool.read_picture().hundreds, tool.read_house().hundreds
    off = {name: (drawn[name], real[name]) for name in real if abs(drawn[name] - real[name]) > 2 + 0.15 * real[name]}
    assert off == {}, "run python tools/draw_house.py"


def test_every_import_goes_to_a_layer_below(tool):
    house = tool.read_house()
    upwards = [
        (folder, other)
        for folder, others in house.imports.items()
        for other in others
        if house.folders.index(other) < house.folders.index(folder)
    ]
    assert upwards == []
