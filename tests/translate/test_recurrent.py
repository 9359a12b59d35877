"""Recurrent layers: those that torch has are one op of the program, with the results of a layer step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper
from onnx_models import make_model

from openipu.capture import capture_program
from openipu.translate.module import ForeignModule
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
TIME, BATCH, WIDTH, HIDDEN = 5, 2, 3, 4


def make_layer(op: str, direction: str, *, stepwise: bool, layout: int = 0) -> bytes:
    """Lengths that leave nothing out make it a layer that torch has not."""
    random = np.random.default_rng(4)
    gates, ways = GATES[op], 2 if direction == "bidirectional" else 1

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    weights = {
        "w": draw(ways, gates * HIDDEN, WIDTH),
        "r": draw(ways, gates * HIDDEN, HIDDEN),
        "b": draw(ways, 2 * gates * HIDDEN),
        "h": draw(*((BATCH, ways, HIDDEN) if layout else (ways, BATCH, HIDDEN))),
    }
    if stepwise:
        weights["lengths"] = np.full(BATCH, TIME, np.int32)
    inputs = ["x", "w", "r", "b", "lengths" if stepwise else "", "h"]
    extra = {"linear_before_reset": 1} if op == "GRU" else {}
    node = helper.make_node(op, inputs, ["y", "last"], hidden_size=HIDDEN, direction=direction, layout=layout, **extra)
    shape = [BATCH, TIME, WIDTH] if layout else [TIME, BATCH, WIDTH]
    return bytes(make_model([node], {"x": shape}, ["y", "last"], weights, opset=14).SerializeToString())


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_a_whole_layer_gives_what_its_steps_give(op: str, direction: str, layout: int) -> None:
    x = torch.randn(*((BATCH, TIME, WIDTH) if layout else (TIME, BATCH, WIDTH)))
    whole, steps = (
        ForeignModule(read_model(make_layer(op, direction, stepwise=stepwise, layout=layout)).graph, TABLE)
        for stepwise in (False, True)
    )
    for name, wanted in steps(x).items():
        torch.testing.assert_close(whole(x)[name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_a_layer_is_one_op_of_a_program(op: str) -> None:
    module = ForeignModule(read_model(make_layer(op, "forward", stepwise=False)).graph, TABLE)
    data = (torch.empty(TIME, BATCH, WIDTH),)
    program = capture_program(module, data, {}, training=False, optimizer=None, name=op)
    targets = [str(node.target) for node in program.micro.module.graph.nodes if node.op == "call_function"]
    assert sum(f"openipu.{op.lower()}_layer" in target for target in targets) == 1
    assert not any("aten.mm" in target or "aten.addmm" in target for target in targets)
