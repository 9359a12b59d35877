"""A small model, and a helper that runs one program on it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import poplar

sys.path.insert(0, str(Path(__file__).parent))  # programs that several tests share


@pytest.fixture
def device() -> poplar.Device:
    model = poplar.IPUModel("ipu2")
    model.tilesPerIPU = 8
    return model.createDevice()


@pytest.fixture
def graph(device: poplar.Device) -> poplar.Graph:
    return poplar.Graph(device)


@pytest.fixture
def run(device: poplar.Device):
    """Compile, load and run; returns the engine."""

    def run_once(graph: poplar.Graph, program: poplar.program.Program, options=None) -> poplar.Engine:
        engine = poplar.Engine(graph, program, options or {})
        engine.loadAndRun(device)
        return engine

    return run_once


@pytest.fixture
def bench(device: poplar.Device):
    from library_bench import Bench

    return Bench(device)
