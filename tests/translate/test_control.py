"""Branches, loops and scans: written out where they are known, and differentiable there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx_models import make_model

from openipu.errors import CaptureError, TranslationError
from openipu.graph import EngineMode, OptimizerGroup, OptimizerKind, OptimizerSpec, RunOptions
from openipu.model_files import run_file
from openipu.session import compile_model
from openipu.translate.module import ForeignModule, Goal
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


def make_training(nodes: list[object], weights: dict[str, np.ndarray], inputs: dict[str, list[int]]) -> object:
    """A model whose `y` becomes a mean square."""
    ending = [
        helper.make_node("Mul", ["y", "y"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0),
    ]
    return make_model([*nodes, *ending], inputs, ["loss"], weights)


def train(model: object, data: list[dict[str, torch.Tensor]]) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses of updates by SGD through the pipeline, and the weights afterwards."""
    graph = read_model(model.SerializeToString()).graph  # type: ignore[attr-defined]
    module = ForeignModule(graph, TABLE, wanted=["loss"], goal=Goal(loss="loss"))
    names = tuple(name for name, _ in module.named_parameters())
    spec = OptimizerSpec(OptimizerKind.SGD, (OptimizerGroup(names),))
    batches = [[batch[name] for name in module.input_names] for batch in data]
    compiled = compile_model(
        module,
        batches[0],
        options=RunOptions(training=True, engine=EngineMode.OPERATORS),
        optimizer=spec,
        show_progress=False,
    )
    held = {name: value.detach().clone() for name, value in module.named_parameters()}
    compiled.executable.load_weights(held, dict(module.named_buffers()))
    compiled.executable.set_hyper_parameters({"lr.0": 0.1})
    losses = [float(compiled.executable.run(batch).outputs[0]) for batch in batches]
    compiled.executable.read_weights(held, dict(module.named_buffers()))
    return losses, held


def test_weights_inside_a_branch_on_data_are_trained() -> None:
    own = np.full(4, 2.0, np.float32)
    chosen = make_body(
        "then",
        [helper.make_node("Mul", ["x", "w"], ["scaled"]), helper.make_node("Identity", ["w"], ["other"])],
        [],
        ["scaled", "other"],
    )
    otherwise = make_body(
        "else",
        [helper.make_node("Add", ["x", "v"], ["sum"]), helper.make_node("Sub", ["sum", "own"], ["minus"]),
         helper.make_node("Neg", ["x"], ["unread"])],
        [],
        ["minus", "unread"],
    )  # fmt: skip
    otherwise.initializer.append(numpy_helper.from_array(own, "own"))  # type: ignore[attr-defined]
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["which"]),
        helper.make_node("If", ["which"], ["y", "rest"], then_branch=chosen, else_branch=otherwise),
    ]
    weights = {"w": WEIGHT, "v": WEIGHT * 3, "zero": np.zeros((), np.float32)}
    data = [{"x": torch.randn(4) + shift} for shift in (2.0, -2.0, 2.0, -2.0)]
    losses, held = train(make_training(nodes, weights, {"x": [4]}), data)
    wanted = {name: torch.tensor(value, requires_grad=True) for name, value in {**weights, "own": own}.items()}
    for batch, loss in zip(data, losses, strict=True):
        x = batch["x"]
        y = x * wanted["w"] if float(x.sum()) > 0 else x + wanted["v"] - wanted["own"]
        (y * y).mean().backward()
        assert abs(loss - (y * y).mean().item()) < 1e-5
        with torch.no_grad():
            for value in wanted.values():
                if value.grad is not None:
                    value -= 0.1 * value.grad
                    value.grad = None
    for name in ("w", "v", "own"):
        torch.testing.assert_close(held[name], wanted[name].detach())


def test_a_branch_that_draws_random_numbers_is_not_trained() -> None:
    chosen = make_body(
        "then",
        [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("Dropout", ["a"], ["b"], ratio=0.5)],
        [],
        ["b"],
    )
    otherwise = make_body("else", [helper.make_node("Neg", ["x"], ["minus"])], [], ["minus"])
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["which"], to=TensorProto.BOOL),
        helper.make_node("If", ["which"], ["y"], then_branch=chosen, else_branch=otherwise),
    ]
    model = make_training(nodes, {"w": WEIGHT}, {"x": [4]})
    model.opset_import[0].version = 11  # type: ignore[attr-defined]
    with pytest.raises(CaptureError, match="draws random numbers, and its gradient would draw others"):
        train(model, [{"x": torch.ones(4)}])


def make_halting_loop(*, collects: bool = False) -> object:
    """Multiplies until the sum passes a bound, at most 8 times."""
    body = make_body(
        "body",
        [
            helper.make_node("Mul", ["carried", "w"], ["next"]),
            helper.make_node("ReduceSum", ["next"], ["size"], keepdims=0),
            helper.make_node("Less", ["size", "bound"], ["go_on"]),
        ],
        ["number", "going", "carried"],
        ["go_on", "next", *(["next"] if collects else [])],
    )
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y", *(["all"] if collects else [])], body=body)]
    return make_training(
        nodes,
        {"count": np.array(8), "w": np.full(4, 1.5, np.float32), "bound": np.array(20.0, np.float32)},
        {"x": [4]},
    )


def test_a_loop_that_ends_by_data_is_trained_up_to_its_last_pass() -> None:
    data = [{"x": torch.full((4,), start)} for start in (1.0, 4.0, 0.1)]
    losses, held = train(make_halting_loop(), data)
    weight = torch.full((4,), 1.5, requires_grad=True)
    for batch, loss in zip(data, losses, strict=True):
        y = batch["x"]
        for _ in range(8):
            y = y * weight
            if y.sum().item() >= 20:
                break
        (y * y).mean().backward()
        assert abs(loss - (y * y).mean().item()) < 1e-3 * max(1.0, loss)
        with torch.no_grad():
            weight -= 0.1 * weight.grad  # type: ignore[operator]
            weight.grad = None
    torch.testing.assert_close(held["w"], weight.detach(), rtol=1e-4, atol=1e-5)


def test_a_loop_that_ends_by_data_and_collects_its_passes_is_refused() -> None:
    with pytest.raises(TranslationError, match="collects a result of each pass"):
        run_file(make_halting_loop(collects=True).SerializeToString(), {"x": torch.ones(4)})  # type: ignore[attr-defined]
