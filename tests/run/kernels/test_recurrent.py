"""LSTM layers through oneDNN: the results of PyTorch's own layers, and the plain kernels where it cannot be used."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, mark_loss
from openipu.graph import RECURRENT_OPS, EngineMode, InputKind, OutputKind, Program, RunOptions
from openipu.run import Executable
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, draft_graph
from openipu.run.drafts.rules import apply_rules
from openipu.run.rewrites.micro_batches import Batched, batch_draft
from openipu.run.rewrites.recurrent import onednn_recurrent as recurrent
from openipu.run.rewrites.recurrent.onednn_recurrent import LSTM_ONEDNN, LSTM_ONEDNN_BACKWARD, make_rules

STEPS, BATCH, FEATURES, HIDDEN = 6, 3, 5, 8


class Model(nn.Module):
    """A stack in both directions, and a loss of everything it returns."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = nn.LSTM(FEATURES, HIDDEN, 2, bidirectional=True, batch_first=True, **options)

    def forward(self, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output, (hidden, cell) = self.layer(source)
        return output, mark_loss(output.square().sum() + hidden.sin().sum() + cell.sum())


def capture(model: nn.Module, source: torch.Tensor, *, training: bool = True) -> Program:
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer = describe_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), names) if training else None
    return capture_program(model, (source,), {}, training=training, optimizer=optimizer, name="model")


def draft_with_onednn(program: Program) -> Draft:
    draft = draft_graph(program.micro, program.constants)
    apply_rules(draft.graph, make_rules())
    draft.graph.lint()
    return draft


def run(draft: Draft, model: nn.Module, source: torch.Tensor) -> dict[tuple[OutputKind, str], torch.Tensor]:
    parameters = dict(model.named_parameters())
    values = [
        parameters[entry.name].detach() if entry.kind is InputKind.PARAMETER else source
        for entry in draft.inputs
        if entry.node not in draft.bound
    ]
    with torch.no_grad():
        returned = generate_function(draft.graph, draft.bound, "test")(*values)
    return {(entry.kind, entry.name): value for entry, value in zip(draft.outputs, returned, strict=True)}


def count(draft: Draft, target: Any) -> int:
    return len(draft.graph.find_nodes(op="call_function", target=target))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("bias", [True, False])
def test_training_is_equal_to_the_bit_to_the_layers_of_pytorch(bias: bool) -> None:
    model, source = Model(bias=bias), torch.randn(BATCH, STEPS, FEATURES)
    draft = draft_with_onednn(capture(model, source))
    assert count(draft, LSTM_ONEDNN) == count(draft, LSTM_ONEDNN_BACKWARD) == 4
    results = run(draft, model, source)
    output, loss = model(source)
    loss.backward()
    assert torch.equal(next(value for value in results.values() if value.dim() == 3), output.detach())
    for name, parameter in model.named_parameters():
        assert torch.equal(results[OutputKind.GRADIENT, name], parameter.grad), name


def test_workspaces_flow_through_the_graph_so_that_steps_may_interleave() -> None:
    model = Model()
    first, second = torch.randn(2, BATCH, STEPS, FEATURES)
    draft = draft_with_onednn(capture(model, first))
    for node in draft.graph.find_nodes(op="call_function", target=LSTM_ONEDNN_BACKWARD):
        workspace = node.args[-2]
        assert workspace.target is operator.getitem
        assert workspace.args[0].target is LSTM_ONEDNN
        assert workspace.meta["val"].numel() == workspace.args[0].args[-1] > 0
    alone, _, again = (run(draft, model, source) for source in (first, second, first))
    assert all(torch.equal(alone[key], again[key]) for key in alone)


def test_announced_shapes_are_those_of_the_kernels() -> None:
    model, source = Model(), torch.randn(BATCH, STEPS, FEATURES)
    draft = draft_with_onednn(capture(model, source))
    operands = [torch.randn(shape) for shape in ((STEPS, BATCH, FEATURES), (BATCH, HIDDEN), (BATCH, HIDDEN))]
    weights = [torch.randn(4 * HIDDEN, width) for width in (FEATURES, HIDDEN)]
    size = recurrent.measure_workspace(STEPS, BATCH, FEATURES, HIDDEN)
    results = LSTM_ONEDNN(*operands, *weights, None, False, size)
    announced = LSTM_ONEDNN(*(tensor.to("meta") for tensor in (*operands, *weights)), None, False, size)
    assert [(value.shape, value.dtype) for value in results] == [(value.shape, value.dtype) for value in announced]
    node = draft.graph.find_nodes(op="call_function", target=LSTM_ONEDNN)[0]
    assert [value.shape for value in node.meta["val"]] == [value.shape for value in results]
    gradient = torch.randn(STEPS, BATCH, HIDDEN)
    backward = LSTM_ONEDNN_BACKWARD(gradient, None, None, *operands, *weights, *results, False)
    meta = [tensor.to("meta") for tensor in (gradient, *operands, *weights, *results)]
    announced = LSTM_ONEDNN_BACKWARD(meta[0], None, None, *meta[1:], False)
    assert [value.shape for value in backward] == [value.shape for value in announced]


def test_inference_has_no_workspace() -> None:
    model, source = Model().eval(), torch.randn(BATCH, STEPS, FEATURES)
    draft = draft_with_onednn(capture(model.layer, source, training=False))
    nodes = draft.graph.find_nodes(op="call_function", target=LSTM_ONEDNN)
    assert [node.args[-1] for node in nodes] == [0] * 4
    results = run(draft, model.layer, source)
    with torch.no_grad():
        output, _ = model.layer(source)
    torch.testing.assert_close(next(iter(results.values())), output, rtol=1e-6, atol=1e-6)


def test_gates_that_somebody_reads_are_kept() -> None:
    model, source = Model(), torch.randn(BATCH, STEPS, FEATURES)
    draft = draft_graph(*((program := capture(model, source)).micro, program.constants))
    layers = draft.graph.find_nodes(op="call_function", target=RECURRENT_OPS["lstm_layer"])
    gates = next(user for user in layers[0].users if user.args[1] == 3)
    draft.replace_results([gates, *draft.results[1:]], draft.outputs)
    apply_rules(draft.graph, make_rules())
    assert count(draft, RECURRENT_OPS["lstm_layer"]) == count(draft, RECURRENT_OPS["lstm_layer_backward"]) == 1
    assert count(draft, LSTM_ONEDNN) == count(draft, LSTM_ONEDNN_BACKWARD) == 3


def test_a_batch_of_micro_batches_goes_to_onednn_as_it_lies() -> None:
    program = capture(Model(), torch.randn(BATCH, STEPS, FEATURES))
    batched = batch_draft(draft_graph(program.micro, program.constants), 4)
    assert isinstance(batched, Batched)
    apply_rules(batched.draft.graph, make_rules())
    batched.draft.graph.lint()
    found = batched.draft.graph.find_nodes(op="call_function", target=LSTM_ONEDNN)
    assert len(found) == count(batched.draft, LSTM_ONEDNN_BACKWARD) == 4
    assert {node.args[0].meta["val"].shape[1] for node in found} == {4 * BATCH}


def test_plain_kernels_are_used_where_onednn_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, source = Model(), torch.randn(BATCH, STEPS, FEATURES)
    program = capture(model, source)
    with_onednn = run(draft_with_onednn(program), model, source)
    monkeypatch.setattr(recurrent, "measure_workspace", lambda *sizes: None)
    draft = draft_with_onednn(program)
    assert count(draft, LSTM_ONEDNN) == count(draft, LSTM_ONEDNN_BACKWARD) == 0
    plain = run(draft, model, source)
    for key, value in with_onednn.items():
        torch.testing.assert_close(plain[key], value, rtol=2e-5, atol=2e-5)


def test_half_precision_is_computed_in_float32_and_rounded() -> None:
    model, source = Model().half(), torch.randn(BATCH, STEPS, FEATURES).half()
    draft = draft_with_onednn(capture(model, source))
    results = run(draft, model, source)
    found = next(value for value in results.values() if value.dim() == 3)
    assert {value.dtype for (kind, _), value in results.items() if kind is OutputKind.GRADIENT} == {torch.float16}
    wide = model.float()
    output, loss = wide(source.float())
    loss.backward()
    torch.testing.assert_close(found.float(), output.detach(), rtol=2**-9, atol=2**-10)
    for name, parameter in wide.named_parameters():
        gradient = results[OutputKind.GRADIENT, name].float()
        torch.testing.assert_close(gradient, parameter.grad.float(), rtol=2e-2, atol=2e-2, msg=name)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_training_run_follows_pytorch(make: Callable[..., nn.Module]) -> None:
    import poptorch  # the whole way, as users take it

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = make(FEATURES, HIDDEN, 2, batch_first=True), nn.Linear(HIDDEN, 4)

        def forward(self, source: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            logits = self.head(self.layer(source)[0][:, -1])
            return logits, nn.functional.cross_entropy(logits, labels)

    model, eager = Classifier(), Classifier()
    eager.load_state_dict(model.state_dict())
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, eager)]
    trained = poptorch.trainingModel(model, options, optimizers[0])
    source, labels = torch.randn(2 * BATCH, STEPS, FEATURES), torch.randint(4, (2 * BATCH,))
    for _ in range(4):
        trained(source, labels)
        optimizers[1].zero_grad()
        for part, part_labels in zip(source.split(BATCH), labels.split(BATCH), strict=True):
            (eager(part, part_labels)[1] / 2).backward()
        optimizers[1].step()
    trained.copyWeightsToHost()
    for name, parameter in eager.named_parameters():
        torch.testing.assert_close(model.state_dict()[name], parameter.detach(), rtol=2e-5, atol=2e-5, msg=name)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_layers_of_inference_keep_their_weights_packed_and_follow_newly_loaded_ones(
    dtype: torch.dtype, bias: bool
) -> None:
    source = torch.randn(BATCH, STEPS, FEATURES, dtype=dtype)
    model = Model(bias=bias).to(dtype)
    executable = Executable(capture(model, source, training=False), RunOptions(engine=EngineMode.OPERATORS))
    assert len(executable._sets.first.memory._followers) == 4, "two layers in two directions"
    for _ in range(2):
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)
        executable.load_weights(dict(model.named_parameters()), {})
        with torch.no_grad():
            expected = copy.deepcopy(model).float()(source.float())[0]
        found = executable.run([source]).outputs[0]
        assert found.dtype is dtype
        tolerance = 0.0 if dtype is torch.float32 else 2e-3
        torch.testing.assert_close(found.float(), expected, rtol=tolerance, atol=tolerance)
