"""Fixtures of the reference and of verification."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openipu.capture import capture_program
from openipu.run import Executable, split_micro_batch
from openipu.run.engine import pass_list
from openipu.run.engine.pass_list import Pass

sys.path.insert(0, str(Path(__file__).parent))  # for the models beside the tests


@pytest.fixture
def plant(monkeypatch):
    """Put a rule into the list, at a place of its own."""

    def put(name, change, place=0):
        passes = list(pass_list.BOUND)
        passes.insert(place, Pass(name, lambda draft, setting: change(draft)))
        monkeypatch.setattr(pass_list, "BOUND", tuple(passes))

    return put


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Reproducers are written to the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def start_inference():
    """Capture a model and load its weights."""

    def start(model, leaves, options):
        micro = tuple(split_micro_batch(leaf, options) for leaf in leaves)
        program = capture_program(model, micro, {}, training=False, optimizer=None, name=type(model).__name__)
        executable = Executable(program, options)
        executable.load_weights(dict(model.named_parameters()), dict(model.named_buffers()))
        return executable

    return start
