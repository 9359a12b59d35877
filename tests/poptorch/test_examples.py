"""The examples run as they are."""

import re
import runpy
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_digits_example_learns(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["poptorch_mnist.py", "--epochs", "3"])
    runpy.run_path(str(EXAMPLES / "poptorch_mnist.py"), run_name="__main__")
    output = capsys.readouterr().out
    assert "Epoch 3: loss" in output
    accuracy = float(re.search(r"Accuracy on test set: ([\d.]+)%", output).group(1))
    assert accuracy > 90


def test_the_digits_example_knows_no_openipu():
    text = (EXAMPLES / "poptorch_mnist.py").read_text()
    assert "import poptorch" in text
    assert "openipu" not in text


def test_the_pipeline_example_gives_the_same_loss_with_every_strategy(monkeypatch, capsys):
    lines = set()
    for strategy in ("pipelined", "sharded", "phased"):
        words = ["--strategy", strategy, "--steps", "5", "--layers", "2", "--ipus", "2", "--width", "16"]
        monkeypatch.setattr(sys, "argv", ["poptorch_pipeline.py", *words])
        runpy.run_path(str(EXAMPLES / "poptorch_pipeline.py"), run_name="__main__")
        lines.add(capsys.readouterr().out)
    assert len(lines) == 1
    assert lines.pop().startswith("Step 5: loss 0.")
