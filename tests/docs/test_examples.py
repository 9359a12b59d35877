"""The examples of the README and the documentation work: blocks under `<!-- run -->` are executed as they stand."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

from openipu.machine import load_system_file

REPOSITORY = Path(__file__).parents[2]
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
_BLOCK = re.compile(r"^<!-- run -->\n```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<address>[^)#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Example:
    page: Path
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def find_examples() -> list[Example]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("code")) + 1
            found.append(Example(page, line, match["language"], match["code"]))
    return found


EXAMPLES = find_examples()


def test_no_marked_block_is_overlooked():
    marks = sum(page.read_text(encoding="utf-8").count("<!-- run -->") for page in PAGES)
    assert len(EXAMPLES) == marks > 0
    assert {example.language for example in EXAMPLES} <= {"python", "toml"}


@pytest.mark.parametrize("example", [entry for entry in EXAMPLES if entry.language == "python"], ids=str)
def test_a_python_example_runs(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "example.py"
    # Empty lines in front keep the line numbers of the page in a traceback.
    script.write_text("\n" * (example.line - 1) + example.code, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("example", [entry for entry in EXAMPLES if entry.language == "toml"], ids=str)
def test_a_machine_example_loads(example, tmp_path):
    file = tmp_path / "machine.toml"
    file.write_text(example.code, encoding="utf-8")
    assert load_system_file(file).ipus >= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    for match in _LINK.finditer(page.read_text(encoding="utf-8")):
        address = match["address"]
        if "://" not in address and not address.endswith(".png"):
            assert (page.parent / address).exists(), address
