"""The conformance page is made from outcomes and known reasons."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def summary():
    spec = importlib.util.spec_from_file_location("summary", REPOSITORY / "tests/conformance/summary.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_failure_is_listed_with_its_reason(summary, tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    shutil.copy(REPOSITORY / "docs" / "conformance.md", page)
    plain = {"a_test.py": {"one[x]": "passed", "one[y]": "failed: no|pipe", "two": "skipped: hardware"}}
    hardware = {"a_test.py": {"one[x]": "passed", "one[y]": "passed", "two": "failed: odd"}}
    for name, outcomes in (("plain", plain), ("hardware", hardware)):
        (tmp_path / f"{name}.json").write_text(json.dumps(outcomes))
    misses = tmp_path / "misses.toml"
    misses.write_text('[misses]\n"a_test.py::one[y]" = "stale"\n')
    monkeypatch.setattr(summary, "MISSES", misses)
    words = [str(tmp_path / "plain.json"), str(tmp_path / "hardware.json"), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["summary.py", *words])
    assert summary.main() == 1
    assert capsys.readouterr().err == "no known reason: a_test.py::two\n"
    text = page.read_text()
    assert "**without hardware:** 1 of 2 items pass (50.0%), 1 skipped" in text
    assert "| a_test.py | 1 | 1 | 1 | 2 | 1 | 0 |" in text
    assert "| 1 | stale | `a_test.py::one` |" in text
    assert "| 1 | not known yet: odd | `a_test.py::two` |" in text
    misses.write_text('[misses]\n"a_test.py::*" = "stale"\n')
    assert summary.main() == 0
    assert page.read_text().count("## What fails") == 1
