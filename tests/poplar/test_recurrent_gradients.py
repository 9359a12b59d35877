"""Recurrent layers, forward and backward, against PyTorch's automatic gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import poplar
import popnn
from popnn import NonLinearityType, gru, lstm, rnn

TIME, BATCH, INPUT, HIDDEN = 4, 3, 5, 2
RANDOM = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def leaf(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(values.copy()).requires_grad_()


def near(found: np.ndarray, expected: torch.Tensor | None) -> None:
    assert expected is not None
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=2e-5, atol=2e-5)


class LstmCase:
    """One layer with values, in a bench and in PyTorch."""

    def __init__(self, bench, full: bool) -> None:
        self.params = lstm.LstmParams(poplar.FLOAT, BATCH, TIME, INPUT, HIDDEN, full)
        arrays = [numbers(TIME, BATCH, INPUT), numbers(BATCH, HIDDEN), numbers(BATCH, HIDDEN)]
        arrays += [numbers(4, INPUT, HIDDEN), numbers(4, HIDDEN, HIDDEN), numbers(4, HIDDEN)]
        self.x, self.h, self.c, self.w, self.u, self.b = (leaf(one) for one in arrays)
        given = [bench.give(one) for one in arrays]
        self.given, self.state = given[0], lstm.LstmState(given[1], given[2])
        self.weights = lstm.LstmWeights(*given[3:])

    def run(self) -> tuple[torch.Tensor, torch.Tensor]:
        """PyTorch's own cell, whose gates are in the order input, forget, candidate, output."""
        order = [1, 0, 2, 3]
        cell = torch.nn.LSTMCell(INPUT, HIDDEN)
        flat = {
            "weight_ih": self.w[order].transpose(1, 2).reshape(-1, INPUT),
            "weight_hh": self.u[order].transpose(1, 2).reshape(-1, HIDDEN),
            "bias_ih": self.b[order].reshape(-1),
            "bias_hh": torch.zeros(4 * HIDDEN),
        }
        state, outputs = (self.h, self.c), []
        for step in range(TIME):
            state = torch.func.functional_call(cell, flat, (self.x[step], state))
            outputs.append(state[0])
        return torch.stack(outputs), state[1]


@pytest.mark.parametrize("full", [True, False], ids=["all outputs", "the last output"])
def test_an_lstm_layer_has_the_gradients_of_pytorchs(bench, full) -> None:
    case = LstmCase(bench, full)
    kept, grads_in, grads_out = [], [], []
    out, cell = lstm.lstmFwd(bench.graph, case.params, case.state, case.given, case.weights, kept, bench.prog)
    change = numbers(TIME, BATCH, HIDDEN) if full else numbers(BATCH, HIDDEN)
    last = [numbers(BATCH, HIDDEN), numbers(BATCH, HIDDEN)]
    ends = lstm.LstmState(bench.give(last[0]), bench.give(last[1]))
    state = lstm.lstmBwdWithWU(
        bench.graph, case.params, bench.prog, case.state, kept[0], case.weights, case.given, out, bench.give(change),
        ends, grads_in, grads_out,
    )  # fmt: skip
    new = grads_out[0]
    found = bench.read(
        out, cell, grads_in[0], state.output, state.cellState, new.inputWeights, new.outputWeights, new.biases
    )
    outputs, final = case.run()
    shown = outputs if full else outputs[-1]
    loss = (shown * torch.from_numpy(change)).sum() + (outputs[-1] * torch.from_numpy(last[0])).sum()
    (loss + (final * torch.from_numpy(last[1])).sum()).backward()
    expected = [shown, final, *(one.grad for one in (case.x, case.h, case.c, case.w, case.u, case.b))]
    for one, other in zip(found, expected, strict=True):
        near(one, other)


def test_an_lstm_layer_takes_the_gradient_of_the_last_cell_alone_and_leaves_out_that_of_the_input(bench) -> None:
    case = LstmCase(bench, True)
    kept: list[poplar.Tensor] = []
    out, _ = lstm.lstmFwd(bench.graph, case.params, case.state, case.given, case.weights, kept, bench.prog)
    change, last, between = numbers(TIME, BATCH, HIDDEN), numbers(BATCH, HIDDEN), []
    state = lstm.lstmBwd(
        bench.graph, case.params, bench.prog, case.state, kept[0], case.weights, case.given, out, bench.give(change),
        bench.give(last), None, between,
    )  # fmt: skip
    assert between[0].shape() == [TIME, BATCH, 4 * HIDDEN]
    found = bench.read(state.output, state.cellState)
    outputs, final = case.run()
    ((outputs * torch.from_numpy(change)).sum() + (final * torch.from_numpy(last)).sum()).backward()
    near(found[0], case.h.grad)
    near(found[1], case.c.grad)


@pytest.mark.parametrize("full", [True, False], ids=["all outputs", "the last output"])
@pytest.mark.parametrize("after", [False, True], ids=["reset before", "reset after"])
def test_a_gru_layer_has_the_gradients_of_its_formula(bench, after, full) -> None:
    params = gru.GruParams(poplar.FLOAT, BATCH, TIME, INPUT, HIDDEN, full, after)
    arrays = [numbers(TIME, BATCH, INPUT), numbers(BATCH, HIDDEN)]
    arrays += [numbers(3, INPUT, HIDDEN), numbers(3, HIDDEN, HIDDEN), numbers(3, *([2] if after else []), HIDDEN)]
    x, h, w, u, b = (leaf(one) for one in arrays)
    given = [bench.give(one) for one in arrays]
    weights, kept, grads_in, grads_out = gru.GruWeights(*given[2:]), [], [], []
    out = gru.gruFwd(bench.graph, params, given[1], given[0], weights, kept, bench.prog)
    change = numbers(TIME, BATCH, HIDDEN) if full else numbers(BATCH, HIDDEN)
    state = gru.gruBwdWithWU(
        bench.graph, params, bench.prog, given[1], kept[0], weights, given[0], out, bench.give(change), grads_in,
        grads_out,
    )  # fmt: skip
    new = grads_out[0]
    found = bench.read(out, grads_in[0], state, new.inputWeights, new.outputWeights, new.biases)
    hidden, outputs = h, []
    enter, around = (b[:, 0], b[:, 1]) if after else (b, torch.zeros_like(b))
    for step in range(TIME):
        reset = torch.sigmoid(x[step] @ w[0] + hidden @ u[0] + enter[0] + around[0])
        update = torch.sigmoid(x[step] @ w[1] + hidden @ u[1] + enter[1] + around[1])
        inner = reset * (hidden @ u[2] + around[2]) if after else (reset * hidden) @ u[2]
        hidden = update * hidden + (1 - update) * torch.tanh(x[step] @ w[2] + inner + enter[2])
        outputs.append(hidden)
    shown = torch.stack(outputs) if full else outputs[-1]
    (shown * torch.from_numpy(change)).sum().backward()
    for one, other in zip(found, [shown, x.grad, h.grad, w.grad, u.grad, b.grad], strict=True):
        near(one, other)


def test_biases_of_a_gru_have_the_shape_that_the_layer_asks_for(bench) -> None:
    params = gru.GruParams(poplar.FLOAT, BATCH, TIME, INPUT, HIDDEN, True, True)
    shapes = [(BATCH, HIDDEN), (TIME, BATCH, INPUT), (3, INPUT, HIDDEN), (3, HIDDEN, HIDDEN), (3, HIDDEN)]
    state, given, *weights = (bench.give(numbers(*shape)) for shape in shapes)
    with pytest.raises(poplar.poplar_error, match=rf"biases need shape \[3, 2, {HIDDEN}\]"):
        gru.gruFwd(bench.graph, params, state, given, gru.GruWeights(*weights), bench.prog)


@pytest.mark.parametrize("kind", [NonLinearityType.TANH, NonLinearityType.RELU, NonLinearityType.SIGMOID])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_plain_layer_has_the_gradients_of_pytorchs(bench, kind, weighted) -> None:
    arrays = [numbers(TIME, BATCH, INPUT), numbers(BATCH, HIDDEN), numbers(HIDDEN)]
    arrays += [numbers(INPUT, HIDDEN), numbers(HIDDEN, HIDDEN)]
    x, h, b, w, u = (leaf(one) for one in arrays)
    given, first, biases, into, back = (bench.give(one) for one in arrays)
    ready = bench.give((x @ w).detach().numpy()) if weighted else None
    out = rnn.rnnFwdSequence(bench.graph, bench.prog, first, ready, biases, into, back, given, kind)
    change = numbers(TIME, BATCH, HIDDEN)
    grads = rnn.rnnBwdSequence(
        bench.graph, True, False, bench.prog, first, out, biases, into, back, bench.give(change), given, kind
    )
    found = bench.read(out, *grads)
    function = {"TANH": torch.tanh, "RELU": torch.relu, "SIGMOID": torch.sigmoid}[kind.name]
    hidden, outputs = h, []
    for step in range(TIME):
        hidden = function(x[step] @ w + hidden @ u + b)
        outputs.append(hidden)
    shown = torch.stack(outputs)
    (shown * torch.from_numpy(change)).sum().backward()
    for one, other in zip(found, [shown, x.grad, w.grad, u.grad, b.grad], strict=True):
        near(one, other)


def test_what_a_plain_layer_is_not_asked_for_is_not_made(bench) -> None:
    tensors = [
        bench.give(numbers(BATCH, HIDDEN)),
        bench.give(numbers(TIME, BATCH, HIDDEN)),
        bench.give(numbers(HIDDEN)),
    ]
    tensors += [bench.give(numbers(INPUT, HIDDEN)), bench.give(numbers(HIDDEN, HIDDEN))]
    tensors += [bench.give(numbers(TIME, BATCH, HIDDEN)), bench.give(numbers(TIME, BATCH, INPUT))]
    tanh = NonLinearityType.TANH
    made = [
        rnn.rnnBwdSequence(bench.graph, wu, skip, bench.prog, *tensors, tanh) for wu, skip in [(0, 0), (1, 1), (0, 1)]
    ]
    assert [[one is not None for one in grads] for grads in made] == [
        [True, False, False, False], [False, True, True, True], [False] * 4,
    ]  # fmt: skip
    with pytest.raises(poplar.poplar_error, match="no gradient of GELU from its output"):
        rnn.rnnBwdSequence(bench.graph, True, False, bench.prog, *tensors, NonLinearityType.GELU)


def test_a_recurrent_layer_needs_a_sequence_and_a_list(bench) -> None:
    case = LstmCase(bench, True)
    with pytest.raises(poplar.poplar_error, match="lstmFwd needs a Sequence"):
        lstm.lstmFwd(bench.graph, case.params, case.state, case.given, case.weights)
    with pytest.raises(poplar.poplar_error, match="intermediates go to a list"):
        popnn.lstm.lstmFwd(bench.graph, case.params, case.state, case.given, case.weights, case.given, bench.prog)
