"""Branches, loops and scans: written out where they are known, and differentiable there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from onnx_models import make_model

from openipu.errors import TranslationError
from openipu.model_files import run_file
from openipu.translate.module import ForeignModule
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE

WEIGHT = np.linspace(0.5, 1.5, 4, dtype=np.float32)


def make_body(name: str, nodes: list[object], inputs: list[str], outputs: list[str]) -> object:
    kinds = {"number": TensorProto.INT64, "going": TensorProto.BOOL, "go_on": TensorProto.BOOL}
    return helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(entry, kinds.get(entry, TensorProto.FLOAT), None) for entry in inputs],
        [helper.make_tensor_value_info(entry, kinds.get(entry, TensorProto.FLOAT), None) for entry in outputs],
    )


def make_loop() -> object:
    body = make_body(
        "body",
        [
            helper.make_node("Mul", ["carried", "w"], ["next"]),
            helper.make_node("Identity", ["going"], ["go_on"]),
            helper.make_node("Identity", ["next"], ["seen"]),
        ],
        ["number", "going", "carried"],
        ["go_on", "next", "seen"],
    )
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y", "all"], body=body)]
    return make_model(nodes, {"x": [4]}, ["y", "all"], {"count": np.array(3), "w": WEIGHT})


def make_scan() -> object:
    body = make_body(
        "body",
        [
            helper.make_node("Mul", ["carried", "w"], ["scaled"]),
            helper.make_node("Add", ["scaled", "row"], ["next"]),
            helper.make_node("Identity", ["next"], ["seen"]),
        ],
        ["carried", "row"],
        ["next", "seen"],
    )
    nodes = [helper.make_node("Scan", ["start", "x"], ["y", "all"], body=body, num_scan_inputs=1)]
    return make_model(nodes, {"x": [5, 4]}, ["y", "all"], {"start": np.zeros(4, np.float32), "w": WEIGHT})


def make_branch() -> object:
    chosen = make_body("then", [helper.make_node("Mul", ["x", "w"], ["twice"])], [], ["twice"])
    otherwise = make_body("else", [helper.make_node("Neg", ["x"], ["minus"])], [], ["minus"])
    nodes = [helper.make_node("If", ["which"], ["y"], then_branch=chosen, else_branch=otherwise)]
    return make_model(nodes, {"x": [4], "which": []}, ["y"], {"w": WEIGHT}, kinds={"which": "bool"})


def test_a_loop_of_known_count_is_written_out_with_its_gradient() -> None:
    module = ForeignModule(read_model(make_loop().SerializeToString()).graph, TABLE)
    x = torch.rand(4)
    found = module(x)
    weight = torch.tensor(WEIGHT, requires_grad=True)
    expected = x * weight**3
    torch.testing.assert_close(found["y"], expected)
    assert found["all"].shape == (3, 4)
    expected.sum().backward()
    found["y"].sum().backward()
    torch.testing.assert_close(module._parameters["w"].grad, weight.grad)


def test_a_scan_is_written_out_with_its_gradient() -> None:
    module = ForeignModule(read_model(make_scan().SerializeToString()).graph, TABLE)
    x = torch.rand(5, 4)
    weight, state = torch.tensor(WEIGHT, requires_grad=True), torch.zeros(4)
    for row in x:
        state = state * weight + row
    found = module(x)
    torch.testing.assert_close(found["y"], state)
    state.sum().backward()
    found["y"].sum().backward()
    torch.testing.assert_close(module._parameters["w"].grad, weight.grad)


def test_a_branch_on_a_known_condition_is_written_out_with_its_gradient() -> None:
    graph = read_model(make_branch().SerializeToString()).graph
    module = ForeignModule(graph, TABLE, constants={"which": torch.tensor(True)})
    x = torch.rand(4)
    module(x)["y"].sum().backward()
    torch.testing.assert_close(module._parameters["w"].grad, x)


@pytest.mark.parametrize("make", [make_loop, make_scan], ids=["loop", "scan"])
def test_loops_and_scans_run_in_the_pipeline(make: object) -> None:
    model = make()  # type: ignore[operator]
    x = torch.rand(*(size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim))
    wanted = ForeignModule(read_model(model.SerializeToString()).graph, TABLE)(x)
    found = run_file(model.SerializeToString(), {"x": x})
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value.detach())


@pytest.mark.parametrize("which", [True, False])
def test_a_branch_that_depends_on_data_is_chosen_when_the_program_runs(which: bool) -> None:
    x = torch.rand(4)
    found = run_file(make_branch().SerializeToString(), {"x": x, "which": torch.tensor(which)})
    torch.testing.assert_close(found["y"], x * torch.tensor(WEIGHT) if which else -x)


def test_a_loop_without_end_is_refused() -> None:
    model = make_loop()
    model.graph.initializer[0].CopyFrom(  # type: ignore[attr-defined]
        helper.make_tensor("count", TensorProto.INT64, [], [1 << 60])
    )
    module = ForeignModule(read_model(model.SerializeToString()).graph, TABLE)  # type: ignore[attr-defined]
    with pytest.raises(TranslationError, match="more than 4096 passes"):
        module(torch.rand(4))
