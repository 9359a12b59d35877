"""Needs TensorFlow, which has an environment of its own: `make test` runs these in it. Elsewhere they are left out."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # as exact as TensorFlow can be: it is what we compare with

if importlib.util.find_spec("tensorflow") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _instant(monkeypatch):
    monkeypatch.setenv("OPENIPU_ENGINE", "operators")


@pytest.fixture(scope="module", autouse=True)
def _release():
    """No module leaves an IPU held."""
    yield
    if "openipu_tensorflow.ipu.config" in sys.modules:
        sys.modules["openipu_tensorflow.ipu.config"].reset_ipu_configuration()


@pytest.fixture
def steps(monkeypatch):
    """The programs that TF1 computations are compiled to."""
    from openipu_tensorflow.ipu.clusters import programs

    made = []
    original = programs.compile_step

    def compile_step(*args, **kwargs):
        made.append(original(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(programs, "compile_step", compile_step)
    return made
