"""Tests of logging: the readers of what trackers wrote are importable, and nothing leaves this machine."""

import sys
from pathlib import Path

import pytest

for folder in (Path(__file__).parent, *(Path(__file__).parents[1] / name for name in ("lightning", "optimum"))):
    sys.path.insert(0, str(folder))


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PL_DISABLE_TIPS", "1")
