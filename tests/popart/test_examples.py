"""PopART's examples run as they are, with quick settings."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "popart"

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_example(name: str, *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [name, *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def test_the_digits_are_learnt_and_the_trained_weights_go_to_inference(run: Run) -> None:
    output = run("digits.py", "--epochs", "3")
    accuracy = re.search(r"Accuracy on test set: ([\d.]+)%", output)
    assert accuracy is not None
    assert float(accuracy[1]) > 90


def test_an_imported_residual_network_gives_pytorchs_scores(run: Run) -> None:
    output = run("imported_resnet.py", "--blocks", "1", "1", "1", "1", "--image-size", "32", "--batch-size", "2")
    difference = re.search(r"Scores of 4 images; largest difference to PyTorch (\S+)", output)
    assert difference is not None
    assert float(difference[1]) < 1e-4


def test_a_bert_from_onnx_learns(run: Run) -> None:
    output = run("bert_finetuning.py", "--layers", "1", "--steps", "4")
    accuracies = [int(number) for number in re.findall(r"accuracy (\d+)%", output)]
    assert len(accuracies) == 4
    assert accuracies[-1] > 90 > accuracies[0]


def test_a_pipeline_over_four_ipus_gives_the_losses_of_one(run: Run) -> None:
    words = ("--steps", "10", "--width", "16")
    assert run("pipeline.py", *words) == run("pipeline.py", "--ipus", "1", *words)


@pytest.mark.parametrize("name", sorted(file.name for file in EXAMPLES.glob("*.py")))
def test_examples_know_no_openipu(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert "import popart" in text
    assert "import openipu" not in text
