"""The drawing of the tree in `docs/architecture.md` shows the tree as it is."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "draw_house.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("draw_house", TOOL)
    module = sys.modules["draw_house"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_folders_imports_sizes_and_the_way_of_a_batch_as_they_are(tool):
    assert tool.find_differences(tool.read_picture(), tool.read_house()) == [], "run python tools/draw_house.py"


def test_a_true_picture_is_left_alone_and_another_is_drawn_again(tool, tmp_path, monkeypatch):
    house = tool.read_house()
    larger = replace(house, hundreds={name: size + 2 for name, size in house.hundreds.items()})
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "PICTURE", tmp_path / "house.svg")
    monkeypatch.setattr(tool, "read_house", lambda: house)
    stranger = replace(house, walk=house.walk[:-1])
    joined = "".join(sorted({*tool.draw(house).splitlines(True), *tool.draw(larger).splitlines(True)}))  # by a merge
    for text, kept in [(tool.draw(larger), True), (joined, False), (tool.draw(stranger), False)]:
        tool.PICTURE.write_text(text, encoding="utf-8")
        tool.main()
        assert tool.PICTURE.read_text(encoding="utf-8") == (text if kept else tool.draw(house))


def test_every_import_goes_to_a_layer_below(tool):
    house = tool.read_house()
    upwards = [
        (folder, other)
        for folder, others in house.imports.items()
        for other in others
        if house.folders.index(other) < house.folders.index(folder)
    ]
    assert upwards == []
