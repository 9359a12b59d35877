"""Needs Paddle, which has an environment of its own: `make test` runs these in it. Elsewhere they are left out."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if importlib.util.find_spec("paddle") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import openipu_paddle  # noqa: F401
    import paddle

    paddle.enable_static()


@pytest.fixture(autouse=True)
def _instant(monkeypatch):
    monkeypatch.setenv("OPENIPU_ENGINE", "operators")
