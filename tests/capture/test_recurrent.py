"""Recurrent layers become one op for each layer and direction, with the results and gradients of PyTorch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

from openipu.capture import mark_loss
from openipu.graph import OutputKind, Program

STEPS, BATCH, FEATURES, HIDDEN = 5, 3, 4, 6
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class Recurrent(nn.Module):
    """All results of a recurrent layer in one loss; initial states are trained where there are any."""

    def __init__(self, layer: nn.RNNBase, *, states: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self.scale = nn.Parameter(torch.ones(layer.input_size))  # so that the input needs a gradient
        count = layer.num_layers * (2 if layer.bidirectional else 1)
        names = ["hidden", "cell"][: 2 if isinstance(layer, nn.LSTM) else 1] if states else []
        self.states = nn.ParameterDict({name: torch.randn(count, BATCH, HIDDEN) for name in names})

    def forward(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = list(self.states.values())
        given = tuple(states) if len(states) > 1 else states[0] if states else None
        output, last = self.layer(source * self.scale, given)
        total = (output * output).sum()
        for weight, state in enumerate(last if isinstance(last, tuple) else (last,), 1):
            total = total + weight * state.sin().sum()
        return output, mark_loss(total)


def make_source(layer: nn.RNNBase) -> torch.Tensor:
    shape = (BATCH, STEPS, FEATURES) if layer.batch_first else (STEPS, BATCH, FEATURES)
    return torch.randn(shape)


def count_ops(program: Program) -> Counter[str]:
    return Counter(str(node.target) for node in program.micro.module.graph.nodes if node.op == "call_function")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def compare(capture_training: Any, run_micro: Any) -> Any:
    """Outputs and all gradients of a model, against PyTorch."""

    def run(model: Recurrent, source: torch.Tensor, tolerance: float = 2e-6) -> Program:
        program: Program = capture_training(model, source)
        results = run_micro(program, model, source)
        output, loss = model(source)
        loss.backward()
        (found,) = (value for name, value in results.of(OutputKind.OUTPUT).items() if value.dim() == 3)
        torch.testing.assert_close(found, output.detach(), rtol=tolerance, atol=tolerance)
        gradients = results.of(OutputKind.GRADIENT)
        expected = {name: parameter.grad for name, parameter in model.named_parameters()}
        assert gradients.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(gradients[name], gradient, rtol=20 * tolerance, atol=20 * tolerance, msg=name)
        return program

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}, {"bidirectional": True}])
def test_one_layer_has_the_gradients_of_pytorch(compare: Any, kind: str, options: dict[str, Any]) -> None:
    layer = KINDS[kind](FEATURES, HIDDEN, **options)
    used = count_ops(compare(Recurrent(layer), make_source(layer)))
    directions = 2 if layer.bidirectional else 1
    assert used[f"openipu.{kind}_layer.default"] == directions
    assert used[f"openipu.{kind}_layer_backward.default"] == directions
    assert used["aten.mm.default"] + used["aten.addmm.default"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_stacks_in_both_directions_from_trained_states(compare: Any, kind: str) -> None:
    layer = KINDS[kind](FEATURES, HIDDEN, 2, bidirectional=True, batch_first=True)
    used = count_ops(compare(Recurrent(layer, states=True), make_source(layer)))
    assert used[f"openipu.{kind}_layer.default"] == used[f"openipu.{kind}_layer_backward.default"] == 4


def test_a_rectified_layer(compare: Any) -> None:
    layer = nn.RNN(FEATURES, HIDDEN, nonlinearity="relu")
    assert count_ops(compare(Recurrent(layer), make_source(layer)))["openipu.rnn_layer.default"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_time_step(compare: Any, kind: str) -> None:
    layer = KINDS[kind](FEATURES, HIDDEN, bidirectional=True)
    compare(Recurrent(layer, states=True), torch.randn(1, BATCH, FEATURES))


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_last_state_is_read(capture_training: Any, run_micro: Any, kind: str) -> None:
    class LastState(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = KINDS[kind](FEATURES, HIDDEN)

        def forward(self, source: torch.Tensor) -> torch.Tensor:
            _, last = self.layer(source)
            state = last[-1] if isinstance(last, tuple) else last  # of an LSTM: the cell
            return mark_loss(state.square().sum())

    model, source = LastState(), torch.randn(STEPS, BATCH, FEATURES)
    gradients = run_micro(capture_training(model, source), model, source).of(OutputKind.GRADIENT)
    model(source).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=2e-5, atol=2e-5, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_inference_keeps_nothing_for_backward(capture_inference: Any, run_micro: Any, kind: str) -> None:
    layer = KINDS[kind](FEATURES, HIDDEN, 2)
    source = make_source(layer)
    program = capture_inference(layer, source)
    results = run_micro(program, layer, source).of(OutputKind.OUTPUT)
    expected, _ = layer(source)
    torch.testing.assert_close(next(iter(results.values())), expected.detach(), rtol=1e-6, atol=1e-6)
    for node in program.micro.module.graph.find_nodes(
        op="call_function", target=getattr(torch.ops.openipu, f"{kind}_layer").default
    ):
        assert all(value.numel() == 0 for value in node.meta["val"][3 if kind == "lstm" else 2 :])


def test_data_that_needs_no_gradient_gets_none(capture_training: Any) -> None:
    class FromData(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(FEATURES, HIDDEN, 2)

        def forward(self, source: torch.Tensor) -> torch.Tensor:
            return mark_loss(self.layer(source)[0].sum())

    program = capture_training(FromData(), torch.randn(STEPS, BATCH, FEATURES))
    nodes = program.micro.module.graph.find_nodes(
        op="call_function", target=torch.ops.openipu.lstm_layer_backward.default
    )
    assert [node.args[-1] for node in nodes] == [True, False]  # the second layer comes first


def test_dropout_between_layers_is_an_ordinary_op(capture_training: Any) -> None:
    layer = nn.LSTM(FEATURES, HIDDEN, 3, dropout=0.5)
    used = count_ops(capture_training(Recurrent(layer), make_source(layer)))
    assert used["aten.bernoulli.p"] + used["aten.native_dropout.default"] == 2
    assert count_ops(capture_training(Recurrent(layer.eval()), make_source(layer)))["aten.bernoulli.p"] == 0


def test_projections_are_unrolled(compare: Any) -> None:
    layer = nn.LSTM(FEATURES, HIDDEN, proj_size=2)
    used = count_ops(compare(Recurrent(layer), make_source(layer)))
    assert used["openipu.lstm_layer.default"] == 0
    assert used["aten.tanh.default"] == 2 * STEPS


def test_a_sequence_without_batch(compare: Any) -> None:
    layer = nn.GRU(FEATURES, HIDDEN)
    source = torch.randn(STEPS, FEATURES)

    class Unbatched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            output, _ = self.layer(source)
            return output.unsqueeze(0), mark_loss(output.square().sum())

    compare(Unbatched(), source)


def test_half_precision_rounds_once(capture_training: Any, run_micro: Any) -> None:
    layer = nn.LSTM(FEATURES, HIDDEN, 1)
    model = Recurrent(layer).half()
    source = make_source(layer).half()
    program = capture_training(model, source)
    results = run_micro(program, model, source)
    wide = Recurrent(layer).float()
    expected, loss = wide(source.float())
    loss.backward()
    (found,) = (value for value in results.of(OutputKind.OUTPUT).values() if value.dim() == 3)
    assert found.dtype is torch.float16
    # The recurrence is in float32: nothing but operands and the result are rounded, half a unit of 2^-11 each.
    torch.testing.assert_close(found.float(), expected.detach(), rtol=2**-10, atol=2**-11)
    for name, parameter in wide.named_parameters():
        gradient = results.of(OutputKind.GRADIENT)[name]
        assert gradient.dtype is torch.float16
        torch.testing.assert_close(gradient.float(), parameter.grad.float(), rtol=1e-2, atol=1e-2, msg=name)


def test_a_mistake_is_told_in_the_words_of_pytorch(capture_inference: Any) -> None:
    layer = nn.LSTM(FEATURES, HIDDEN)
    source = torch.randn(STEPS, BATCH, FEATURES + 1)
    with pytest.raises(RuntimeError, match="must be equal to input_size"):
        capture_inference(layer, source)
    with pytest.raises(ValueError, match="does not match weight dtype"):
        capture_inference(layer, torch.randn(STEPS, BATCH, FEATURES).half())
    too_many = torch.zeros(2, BATCH, HIDDEN)
    with pytest.raises(RuntimeError, match="Expected hidden"):
        capture_inference(layer, torch.randn(STEPS, BATCH, FEATURES), (too_many, too_many))
