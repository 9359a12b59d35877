"""Tests of Lightning: the folder of shared models is importable, and no switch of the environment leaks in."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

_SWITCHES = (
    "OPENIPU_LIGHTNING_AUTO", "OPENIPU_LIGHTNING_STRICT", "OPENIPU_REPORT_HARDWARE", "PL_GLOBAL_SEED",
    "POPLAR_ENGINE_OPTIONS",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _clean_environment():
    before = {name: os.environ.pop(name, None) for name in _SWITCHES}
    os.environ["PL_DISABLE_TIPS"] = "1"
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
