"""A small model, and a helper that runs one program on it."""

from __future__ import annotations

import pytest

import poplar


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
