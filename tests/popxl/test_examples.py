"""popxl's examples run as they are, with quick settings."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "popxl"


@pytest.mark.slow
def test_the_digits_are_learnt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["digits.py", "--epochs", "3"])
    runpy.run_path(str(EXAMPLES / "digits.py"), run_name="__main__")
    accuracy = re.search(r"Accuracy on test set: ([\d.]+)%", capsys.readouterr().out)
    assert accuracy is not None
    assert float(accuracy[1]) > 90
