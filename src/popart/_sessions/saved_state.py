"""Optimizer state in a model that was written after training.

In: a model. Out: the model without the tensors that only an optimizer reads, and these by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openipu.translate import Weight
from openipu.translate.onnx import OnnxModel
from popart._sessions.loss_scaling import COUNTER, FACTOR

_SINGLE = (FACTOR, COUNTER)
_PREFIXES = ("Accl___", "Accl1___", "Accl2___", "Accl3___", "Accum___", "Step___")


def part_state(model: OnnxModel) -> tuple[OnnxModel, Mapping[str, Weight]]:
    """A tensor is state if it is named so, and no node reads it."""
    graph = model.graph
    read = {name for node in graph.list_nodes() for name in node.inputs} | set(graph.outputs)
    state = {
        name: value
        for name, value in graph.weights.items()
        if name.startswith((*_PREFIXES, *_SINGLE)) and name not in read
    }
    if not state:
        return model, {}
    kept = {name: value for name, value in graph.weights.items() if name not in state}
    return replace(model, graph=replace(graph, weights=kept)), state
