"""What recurrent layers cost: a loop over time around a small matmul, and one large matmul for the weights."""

from __future__ import annotations

import pytest
import torch

from openipu.ops import cost_op
from openipu.ops.cost import CostContext, CostStep, OpCost, Operand, OpSite, StepKind
from openipu.ops.linear import cost_matmul

F32 = torch.float32
BATCH, FEATURES, HIDDEN = 8, 32, 64


def tensor(*shape: int, dtype: torch.dtype = F32) -> Operand:
    return Operand(shape, dtype)


def forward(name: str, gates: int, steps: int, *, training: bool = True, dtype: torch.dtype = F32) -> OpSite:
    state, wide = tensor(BATCH, HIDDEN, dtype=dtype), gates * HIDDEN
    states = (state, state) if name == "lstm" else (state,)
    weights = (tensor(wide, FEATURES, dtype=dtype), tensor(wide, HIDDEN, dtype=dtype))
    bias = tensor(wide, dtype=dtype)
    biases = (bias, bias) if name == "gru" else (bias,)
    flags = (False, False) if name == "rnn" else (False, training)
    args = (tensor(steps, BATCH, FEATURES, dtype=dtype), *states, *weights, *biases, *flags)
    output = tensor(steps, BATCH, HIDDEN, dtype=dtype)
    return OpSite(f"openipu.{name}_layer.default", args, {}, (output, *states))


def backward(name: str, gates: int, steps: int, *, input_wanted: bool = True) -> OpSite:
    state, wide = tensor(BATCH, HIDDEN), gates * HIDDEN
    states = (state, state) if name == "lstm" else (state,)
    weights = (tensor(wide, FEATURES), tensor(wide, HIDDEN))
    output = tensor(steps, BATCH, HIDDEN)
    saved = {"lstm": (tensor(steps, BATCH, wide), output), "gru": (tensor(steps, BATCH, 4 * HIDDEN),), "rnn": ()}[name]
    flags = (False, False, input_wanted) if name == "rnn" else (False, input_wanted)
    gradients = (output, *[None] * len(states))
    args = (*gradients, tensor(steps, BATCH, FEATURES), *states, *weights, output, *saved, *flags)
    return OpSite(f"openipu.{name}_layer_backward.default", args, {}, (args[len(gradients)], *states, *weights))


def in_loop(cost: OpCost, steps: int) -> list[CostStep]:
    return [step for step in cost.steps if step.repeats >= steps]


def test_an_lstm_step_is_one_matmul_of_input_and_state(bow: CostContext) -> None:
    small = cost_matmul(batches=1, rows=BATCH, inner=FEATURES + HIDDEN, columns=4 * HIDDEN, half=False, context=bow)
    for steps in (10, 20):
        repeated = in_loop(cost_op(forward("lstm", 4, steps), bow), steps)
        # take the input, the matmul, exchange and copy to the state, six passes of the cell, store the step
        assert len(repeated) == 1 + len(small.steps) + 2 + 6 + 1
        assert [step.repeats for step in repeated if step.name == "tanh of cell"] == [steps]


def test_a_layer_costs_in_proportion_to_its_steps(bow: CostContext) -> None:
    for name, gates in (("lstm", 4), ("gru", 3)):
        short, long = (cost_op(forward(name, gates, steps), bow).cycles for steps in (10, 30))
        assert long == pytest.approx(3 * short)


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_products_do_at_least_the_operations_of_the_layer(bow: CostContext, name: str, gates: int) -> None:
    steps = 12
    # two operations for each weight, sample and step; backward once for the gradients, once for the weights
    needed = 2 * steps * BATCH * (FEATURES + HIDDEN) * gates * HIDDEN
    assert cost_op(forward(name, gates, steps), bow).flops >= needed
    assert cost_op(backward(name, gates, steps), bow).flops >= 2 * needed


def test_training_also_stores_four_gates_and_the_cell_in_each_step(bow: CostContext) -> None:
    def find_store(training: bool) -> CostStep:
        cost = cost_op(forward("lstm", 4, 10, training=training), bow)
        return next(step for step in cost.steps if step.name == "store step")

    assert find_store(True).cycles >= find_store(False).cycles
    # the output alone, or with five more values of its size, spread over the tiles in pieces of the same size
    assert find_store(True).tiles == 6 * find_store(False).tiles


def test_an_unwanted_gradient_of_the_input_saves_its_matmul(bow: CostContext) -> None:
    for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
        wanted, unwanted = (cost_op(backward(name, gates, 12, input_wanted=wanted), bow) for wanted in (True, False))
        saved = 2 * 12 * BATCH * FEATURES * gates * HIDDEN
        assert wanted.flops - unwanted.flops >= saved
        assert wanted.cycles > unwanted.cycles


def test_backward_holds_the_gradients_of_all_gates_until_the_weights_are_done(bow: CostContext) -> None:
    steps = 2000
    short, long = (cost_op(backward("lstm", 4, count), bow).scratch_bytes_per_tile for count in (steps // 100, steps))
    gates_bytes = steps * BATCH * 4 * HIDDEN * 4
    assert long >= gates_bytes / bow.tiles
    assert long > short


def test_half_precision_is_cheaper(bow: CostContext) -> None:
    single, half = (cost_op(forward("lstm", 4, 10, dtype=dtype), bow) for dtype in (F32, torch.float16))
    assert half.cycles < single.cycles


def test_every_exchange_of_the_loop_is_repeated(bow: CostContext) -> None:
    cost = cost_op(forward("gru", 3, 10), bow)
    assert {step.repeats % 10 for step in cost.steps if step.kind is StepKind.EXCHANGE} == {0}
