"""The examples run as they are, and learn."""

import re
import runpy
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(name, monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def read_number(pattern, text):
    return float(re.search(pattern, text).group(1))


def test_the_digits_are_told_apart(monkeypatch, capsys):
    output = run_example("lightning_mnist.py", monkeypatch, capsys, "--epochs", "3", "--devices", "2")
    assert read_number(r"Accuracy on test set: ([\d.]+)%", output) > 85
    assert len(output.partition("First predictions:")[2].split()) == 10


def test_the_auto_encoder_learns(monkeypatch, capsys):
    output = run_example("lightning_autoencoder.py", monkeypatch, capsys, "--epochs", "3")
    assert "Updates: 168" in output  # 1,797 // 64 calls of two updates in each of three epochs
    assert read_number(r"loss ([\d.]+)", output) < 0.06


def test_the_pipelined_transformer_learns(monkeypatch, capsys):
    output = run_example("lightning_transformer.py", monkeypatch, capsys, "--epochs", "3")
    assert read_number(r"Accuracy: ([\d.]+)%", output) > 80
