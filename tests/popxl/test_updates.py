"""Accumulators and optimizers against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import popxl
from popxl import ops
from popxl.ops import var_updates

START = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32)
GRADIENTS = np.random.default_rng(0).normal(size=(5, 2, 2)).astype(np.float32)


def run(build: Any) -> dict[str, Any]:
    """All variables after five steps of what `build` makes of a variable and a gradient."""
    ir = popxl.Ir()
    with ir.main_graph:
        source = popxl.h2d_stream((2, 2), popxl.float32)
        weight = popxl.variable(START, name="weight")
        build(weight, ops.host_load(source))
    with popxl.Session(ir, "ipu_model") as session:
        for gradient in GRADIENTS:
            session.run({source: gradient})
        return {t.name: session.get_tensor_data(t) for t in ir.main_graph.variables}


def test_accumulators_add_up() -> None:
    def build(weight: Any, gradient: Any) -> None:
        zeros = {name: popxl.variable(np.zeros((2, 2), np.float32), name=name) for name in "abcdefg"}
        step = popxl.variable(0.0, popxl.float32, name="step")
        var_updates.accumulate_(zeros["a"], gradient)
        var_updates.accumulate_(zeros["b"], ops.cast(gradient, popxl.float16), popxl.constant(0.5, popxl.float32))
        var_updates.accumulate_square_(zeros["c"], gradient, 2.0)
        var_updates.accumulate_mean_(zeros["d"], gradient, step)
        var_updates.accumulate_moving_average_(zeros["e"], gradient, 0.9)
        var_updates.accumulate_moving_average_square_(zeros["f"], gradient, popxl.constant(0.9, popxl.float32))
        var_updates.copy_var_update_(zeros["g"], gradient)
        var_updates.accumulator_scale_(weight, 0.5)
        ops.add_(step, popxl.constant(1.0, popxl.float32))

    found = run(build)
    average = square = np.zeros((2, 2))
    for gradient in GRADIENTS:
        average, square = 0.9 * average + 0.1 * gradient, 0.9 * square + 0.1 * gradient**2
    expected = {
        "a": GRADIENTS.sum(0),
        "b": GRADIENTS.sum(0) / 2,
        "c": 2 * (GRADIENTS**2).sum(0),
        "d": GRADIENTS.mean(0),
        "e": average,
        "f": square,
        "g": GRADIENTS[-1],
        "weight": START / 32,
        "step": 5,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-3 if name == "b" else 1e-5, atol=1e-6)


def test_rows_are_accumulated_where_indices_say() -> None:
    def build(weight: Any, gradient: Any) -> None:
        which = popxl.constant(np.array([1, 1], np.int32))
        var_updates.sparse_accumulate_(weight, gradient, which, f=2.0)
        var_updates.accumulator_zero_(popxl.variable(START, name="cleared"))

    found = run(build)
    np.testing.assert_allclose(found["weight"][0], START[0])
    np.testing.assert_allclose(found["weight"][1], START[1] + 2 * GRADIENTS.sum((0, 1)), rtol=1e-5)
    assert not found["cleared"].any()


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_is_pytorchs(decay: float) -> None:
    def build(weight: Any, gradient: Any) -> None:
        first = popxl.variable(np.zeros((2, 2), np.float32))
        second = popxl.variable(np.zeros((2, 2), np.float32))
        step = popxl.variable(0.0, popxl.float32, name="step")
        var_updates.accumulate_moving_average_(first, gradient, 0.9)
        var_updates.accumulate_moving_average_square_(second, gradient, 0.999)
        updater = var_updates.adam_updater(first, second, weight, step, decay, 0.9, 0.999, 1e-8)
        ops.scaled_add_(weight, updater, b=-0.1)

    found = run(build)
    weight = torch.nn.Parameter(torch.tensor(START))
    optimizer = torch.optim.AdamW([weight], lr=0.1, eps=1e-8, weight_decay=decay)
    for gradient in GRADIENTS:
        weight.grad = torch.tensor(gradient)
        optimizer.step()
    np.testing.assert_allclose(found["weight"], weight.detach().numpy(), rtol=1e-4)
    assert found["step"] == 5


def test_lamb_and_adamax_follow_their_formulas() -> None:
    def build(weight: Any, gradient: Any) -> None:
        step = popxl.variable(3.0, popxl.float32)
        updater = var_updates.lamb_updater(gradient, gradient * gradient, beta1=0.9, beta2=0.99, epsilon=0.5)
        norms = ops.lamb_square(weight), ops.lamb_square(updater)
        var_updates.adam_var_update(weight, updater, *norms, learning_rate=0.1, max_weight_norm=2.0)
        made = var_updates.adamax_updater(gradient, ops.abs(gradient), time_step=step, beta1=0.5, epsilon=0.5)
        var_updates.copy_var_update_(popxl.variable(START, name="adamax"), made)
        with pytest.raises(ValueError, match="requires weight"):
            var_updates.adam_updater(gradient, gradient, weight_decay=0.1)
        with pytest.raises(ValueError, match="both beta1 and beta2"):
            var_updates.adam_updater(gradient, gradient, time_step=step)
        with pytest.raises(ValueError, match="requires time_step"):
            var_updates.adamax_updater(gradient, gradient)

    found = run(build)
    weight = START.copy()
    for gradient in GRADIENTS:
        updater = gradient / (np.abs(gradient) + 0.5)
        ratio = min(np.linalg.norm(weight), 2.0) / np.linalg.norm(updater)
        weight = weight - 0.1 * ratio * updater
    np.testing.assert_allclose(found["weight"], weight, rtol=1e-4)
    last = GRADIENTS[-1]
    np.testing.assert_allclose(found["adamax"], last / (1 - 0.5**8) / (np.abs(last) + 0.5), rtol=1e-5)
