"""The tutorial notebook: its cells run, in order, in a kernel of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def notebook(place: Path) -> Any:
    """The notebook after all of its cells ran; a cell that fails raises here."""
    found = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(found)
    settings = {"timeout": 600, "kernel_name": "python3", "resources": {"metadata": {"path": str(place)}}}
    return nbclient.NotebookClient(found, **settings).execute()


def list_texts(notebook: Any) -> list[str]:
    """What each code cell printed."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]


def test_every_code_cell_runs_and_none_writes_a_warning(notebook: Any) -> None:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]


def test_the_tutorial_says_what_its_texts_promise(notebook: Any, place: Path) -> None:
    texts = list_texts(notebook)
    assert any(text.startswith("loss ") for text in texts)
    assert any("are over their limit" in text for text in texts)
    assert any("stage 3 on IPU 3" in text for text in texts), "split over four IPUs"
    assert (place / "out/tutorial/report.html").is_file()


def test_the_notebook_is_kept_without_results() -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
