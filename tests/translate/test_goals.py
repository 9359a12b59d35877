"""Foreign graphs with a loss of their own: gradients as results, weights that a run replaces, training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper
from onnx_models import make_model

from openipu.errors import LossError
from openipu.graph import EngineMode, InputKind, OptimizerGroup, OptimizerKind, OptimizerSpec, RunOptions
from openipu.session import Compiled, compile_model
from openipu.translate.module import ForeignModule, Goal
from openipu.translate.onnx.reading import read_model
from openipu.translate.onnx.table import TABLE

WEIGHT = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
NODES = [
    helper.make_node("MatMul", ["x", "w"], ["product"]),
    helper.make_node("Identity", ["product"], ["copy"]),
    helper.make_node("Mul", ["product", "copy"], ["square"]),
    helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0),
    helper.make_node("ReduceSum", ["square"], ["total"], keepdims=0),
    helper.make_node("Add", ["count", "one"], ["more"]),
]
MODEL = make_model(
    NODES, {"x": [2, 4]}, ["loss"], {"w": WEIGHT, "count": np.zeros(1, np.float32), "one": np.ones(1, np.float32)}
)


def compile_goal(
    goal: Goal, wanted: list[str], accumulation: int = 1, engine: EngineMode = EngineMode.OPERATORS
) -> Compiled:
    module = ForeignModule(read_model(MODEL.SerializeToString()).graph, TABLE, wanted=wanted, goal=goal)
    names = tuple(name for name, _ in module.named_parameters())
    options = RunOptions(training=bool(goal.loss), gradient_accumulation=accumulation, engine=engine)
    compiled = compile_model(
        module,
        [torch.empty(2 * accumulation, 4)],
        options=options,
        optimizer=OptimizerSpec(OptimizerKind.SGD, (OptimizerGroup(names),)) if goal.loss else None,
        show_progress=False,
    )
    compiled.executable.load_weights(dict(module.named_parameters()), dict(module.named_buffers()))
    if goal.loss:
        compiled.executable.set_hyper_parameters({"lr.0": 0.5})
    return compiled


def run(compiled: Compiled, x: torch.Tensor) -> dict[str, torch.Tensor]:
    outputs = compiled.executable.run([x]).outputs
    return torch.utils._pytree.tree_unflatten(list(outputs), compiled.program.output_tree.spec)  # type: ignore[no-any-return]


def read(compiled: Compiled, name: str) -> torch.Tensor:
    micro = compiled.program.micro
    parameters = {entry.name: torch.empty(entry.shape) for entry in micro.inputs_of(InputKind.PARAMETER)}
    buffers = {entry.name: torch.empty(entry.shape) for entry in micro.inputs_of(InputKind.BUFFER)}
    compiled.executable.read_weights(parameters, buffers)
    return {**parameters, **buffers}[name]


def test_gradients_of_inputs_activations_copies_and_weights_are_results() -> None:
    names = {f"grad of {name}": name for name in ("x", "w", "product", "copy", "square", "loss")}
    compiled = compile_goal(Goal(loss="loss", gradients=names, frozen=frozenset({"count", "one"})), ["square", "total"])
    x = torch.randn(2, 4)
    results = run(compiled, x)

    mine, weight = x.clone().requires_grad_(), torch.tensor(WEIGHT, requires_grad=True)
    product = mine @ weight
    copy = product.view_as(product)
    square = product * copy
    loss = square.mean()
    wanted = torch.autograd.grad(loss, [mine, weight, product, copy, square, loss])
    torch.testing.assert_close(results["square"], square.detach())
    torch.testing.assert_close(results["total"], square.sum().detach())
    for name, gradient in zip(names, wanted, strict=True):
        torch.testing.assert_close(results[name], gradient)


def test_the_named_loss_trains_whatever_else_looks_like_one() -> None:
    x = torch.randn(4, 4)
    for accumulation in (1, 2):
        compiled = compile_goal(Goal(loss="total", frozen=frozenset({"count", "one"})), ["loss"], accumulation)
        weight = torch.tensor(WEIGHT, requires_grad=True)
        given = x[: 2 * accumulation]
        (gradient,) = torch.autograd.grad((given @ weight).square().sum() / accumulation, [weight])
        run(compiled, given)
        torch.testing.assert_close(read(compiled, "w"), (weight - 0.5 * gradient).detach())


def test_gradients_of_accumulated_micro_batches_come_back_one_by_one() -> None:
    goal = Goal(loss="total", gradients={"g": "w"}, frozen=frozenset({"count", "one"}))
    x = torch.randn(4, 4)
    results = run(compile_goal(goal, ["loss"], 2), x)
    weight = torch.tensor(WEIGHT)
    torch.testing.assert_close(results["g"], torch.cat([2 * part.T @ (part @ weight) for part in x.split(2)]))


def test_a_weight_that_is_written_keeps_its_new_value() -> None:
    goal = Goal(written={"count": "more"})
    compiled = compile_goal(goal, ["loss"])
    for _ in range(3):
        run(compiled, torch.ones(2, 4))
    assert read(compiled, "count").tolist() == [3.0]


def test_a_gradient_that_never_arrives_is_named() -> None:
    with pytest.raises(LossError, match="No gradient reaches far"):
        compile_goal(Goal(loss="loss", gradients={"far": "more"}), ["loss"])


def test_the_gradient_of_what_is_made_of_whole_numbers_is_a_result() -> None:
    nodes = [
        helper.make_node("Cast", ["whole"], ["cast"], to=1),
        helper.make_node("Mul", ["cast", "w"], ["product"]),
        helper.make_node("ReduceSum", ["product"], ["loss"], keepdims=0),
    ]
    weight = np.arange(3, dtype=np.float32)
    model = make_model(nodes, {"whole": [3]}, ["loss"], {"w": weight}, kinds={"whole": "int64"})
    goal = Goal(loss="loss", gradients={"g": "cast"})
    module = ForeignModule(read_model(model.SerializeToString()).graph, TABLE, wanted=["loss"], goal=goal)
    compiled = compile_model(
        module,
        [torch.empty(3, dtype=torch.int64)],
        options=RunOptions(training=True, engine=EngineMode.OPERATORS),
        optimizer=OptimizerSpec(OptimizerKind.SGD, (OptimizerGroup(("w",)),)),
        show_progress=False,
    )
    compiled.executable.load_weights(dict(module.named_parameters()), {})
    compiled.executable.set_hyper_parameters({"lr.0": 0.5})
    np.testing.assert_array_equal(run(compiled, torch.tensor([1, 2, 3]))["g"], weight)
