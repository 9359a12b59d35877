"""The linter of the pages' scripts sees a page as one script, and names the file that a person would open."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "lint_scripts.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("lint_scripts", TOOL)
    module = sys.modules["lint_scripts"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_of_another_file_is_neither_unused_nor_undefined(tool, folder):
    (folder / "first.js").write_text("function add(a, b) { return a + b; }\n")
    (folder / "second.js").write_text("function start() { return add(1, 2); }\n")
    assert tool.list_findings(tool.join_scripts(folder, ("first.js", "second.js"))) == []


def test_an_undefined_name_is_found_at_its_own_file_and_line(tool, folder):
    (folder / "first.js").write_text("function add(a, b) { return a + b; }\n")
    (folder / "second.js").write_text("// a comment\nfunction start() { return ad(1, add(2, 3)); }\n")
    findings = tool.list_findings(tool.join_scripts(folder, ("first.js", "second.js")))
    assert len(findings) == 1
    assert findings[0].startswith("second.js:2: 'ad' is not defined")
