"""Captured graphs compute what eager PyTorch computes, from one run of the user's code."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from openipu.capture import mark_loss
from openipu.graph import InputKind, OutputKind

aten = torch.ops.aten


def assert_functional(program):
    for graph in (program.micro, program.update):
        for node in graph.module.graph.nodes:
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                assert not node.target._schema.is_mutable, node
                assert node.target not in (aten.detach.default, aten.alias.default)
                assert node.kwargs.get("device") in (None, torch.device("cpu"))
            if node.op != "output":
                values = node.meta["val"] if isinstance(node.meta["val"], tuple) else (node.meta["val"],)
                assert all(value is None or (value.is_meta and value.grad_fn is None) for value in values), node


class MlpWithBuffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 3)
        self.frozen = nn.Linear(8, 8)
        self.frozen.requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("history", torch.zeros(4))
        self.register_buffer("calls", torch.tensor(0))
        self.runs = 0

    def forward(self, x, labels, *, scale):
        self.runs += 1
        self.calls += 1
        self.history[1:3] += x.detach().mean()
        x += 1
        hidden = F.dropout(torch.tanh(self.frozen(self.first(x * scale))), 0.3)
        logits = self.second(hidden)
        return logits, F.cross_entropy(logits, labels)


def test_mlp_with_buffers_equals_eager_to_the_bit(compare_with_eager):
    torch.manual_seed(0)
    model = MlpWithBuffers()
    program = compare_with_eager(model, (torch.randn(5, 6), torch.randint(0, 3, (5,))), {"scale": 2.0})
    assert_functional(program)
    assert [entry.name for entry in program.micro.outputs_of(OutputKind.BUFFER)] == ["history", "calls"]
    assert [entry.name for entry in program.micro.outputs_of(OutputKind.INPUT)] == ["x"]
    assert program.unused_parameters == ("unused.weight", "unused.bias")
    assert "frozen.weight" not in {entry.name for entry in program.micro.outputs_of(OutputKind.GRADIENT)}
    assert {entry.name for entry in program.micro.inputs_of(InputKind.PARAMETER)} == dict(
        model.named_parameters()
    ).keys()


def test_forward_runs_exactly_once(capture_training):
    model = MlpWithBuffers()
    capture_training(model, torch.randn(5, 6), torch.randint(0, 3, (5,)), scale=1.0)
    assert model.runs == 1


class BatchNormCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 2),
        )
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images, labels):
        logits = self.layers(images)
        return logits, self.loss(logits, labels)


def test_batch_norm_network_updates_its_statistics(compare_with_eager):
    torch.manual_seed(0)
    program = compare_with_eager(BatchNormCnn(), (torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 1, 0])))
    assert_functional(program)
    assert len(program.micro.outputs_of(OutputKind.BUFFER)) == 6  # mean, variance and counter of two layers


def test_batch_norm_in_evaluation_changes_nothing(capture_inference):
    program = capture_inference(BatchNormCnn().eval(), torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]))
    assert not program.micro.outputs_of(OutputKind.BUFFER)
    assert program.update is None
    assert not program.training


class LstmClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(5, 7, batch_first=True, bidirectional=True)
        self.head = nn.Linear(14, 3)

    def forward(self, x, labels):
        hidden, _ = self.rnn(x)
        logits = self.head(hidden[:, -1])
        return logits, F.nll_loss(F.log_softmax(logits, dim=-1), labels)


def test_an_lstm_is_one_op_for_each_direction_and_equal(compare_with_eager):
    torch.manual_seed(0)
    program = compare_with_eager(LstmClassifier(), (torch.randn(2, 4, 5), torch.tensor([0, 2])), tolerance=1e-6)
    assert_functional(program)
    used = [str(node.target) for node in program.micro.module.graph.nodes if node.op == "call_function"]
    assert used.count("openipu.lstm_layer.default") == 2
    assert used.count("openipu.lstm_layer_backward.default") == 2


class WithFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        assert x.device.type in ("ipu", "cpu")
        return torch.where(x > 0, gradient, torch.zeros_like(gradient)) * 2


class Oddities(nn.Module):
    """Checkpointing, a custom backward, old weight_norm, writes through views, and list indices."""

    def __init__(self) -> None:
        super().__init__()
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.old = torch.nn.utils.weight_norm(nn.Linear(4, 4))
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        y = torch.utils.checkpoint.checkpoint(lambda value: torch.tanh(self.normed(value)), x, use_reentrant=False)
        y = WithFunction.apply(self.old(y))
        z = self.last(y).clone()
        z[:, 1:3] *= 2
        z[[0, 1]] = z[[1, 0]] + 1
        return mark_loss(z[:, torch.tensor([0, 2], device=x.device)].square(), "sum")


def test_checkpoint_custom_backward_and_view_writes_equal_eager(compare_with_eager):
    torch.manual_seed(0)
    with pytest.warns(FutureWarning):
        model = Oddities()
    program = compare_with_eager(model, (torch.randn(3, 4),), tolerance=1e-6)
    assert_functional(program)
    copy.deepcopy(model.last)
    model(torch.randn(3, 4))


class HalfAccumulator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("total", torch.zeros(4, dtype=torch.float16))

    def forward(self, x):
        y = x * self.weight
        self.total += y.detach()
        self.total.mul_(2)
        return mark_loss(y, "mean"), self.total * 1


def test_an_in_place_op_keeps_the_narrower_dtype_of_its_target(compare_with_eager):
    torch.manual_seed(0)
    assert_functional(compare_with_eager(HalfAccumulator(), (torch.randn(4),)))


class Swapper(nn.Module):
    """Two buffers whose copies must not see each other's later writes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("first", torch.arange(3.0))
        self.register_buffer("second", torch.ones(3))

    def forward(self, x):
        scratch = x * 1
        self.first.copy_(scratch)
        scratch += 5
        self.second.copy_(scratch)
        scratch.zero_()
        return mark_loss((self.first * self.weight + self.second + scratch).sum(), "none")


def test_copies_keep_the_value_of_their_time(compare_with_eager):
    assert_functional(compare_with_eager(Swapper(), (torch.randn(3),)))


def test_a_plain_function_is_captured_for_inference(capture_inference, run_micro):
    program = capture_inference(lambda x, y: {"sum": x + y, "host": 3}, torch.randn(2), torch.randn(2))
    results = run_micro(program, None, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert torch.equal(results.of(OutputKind.OUTPUT)["output_0"], torch.tensor([4.0, 6.0]))
    assert program.output_tree.host_leaves == {1: 3}


def test_tied_parameters_stay_tied(capture_training):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            assert self.head.weight is self.embedding.weight
            return F.cross_entropy(self.head(self.embedding(tokens)), tokens)

    model = Tied()
    program = capture_training(model, torch.tensor([1, 2]))
    assert [entry.name for entry in program.micro.inputs_of(InputKind.PARAMETER)] == ["embedding.weight"]
    assert [entry.name for entry in program.micro.outputs_of(OutputKind.GRADIENT)] == ["embedding.weight"]
    assert model.head.weight is model.embedding.weight


def test_inputs_have_the_names_of_forward(capture_inference):
    def forward(x, batch, *rest, mask=None):
        return x + batch["a"] + batch["b"][0] + rest[0] + mask

    one = torch.ones(1)
    program = capture_inference(forward, one, {"a": one, "b": [one]}, one, mask=one)
    names = [entry.name for entry in program.micro.inputs_of(InputKind.INPUT)]
    assert names == ["x", "batch.a", "batch.b.0", "rest_0", "mask"]
    assert [entry.index for entry in program.micro.inputs_of(InputKind.INPUT)] == [0, 1, 2, 3, 4]


def test_the_signature_is_in_placeholder_order(capture_training):
    program = capture_training(MlpWithBuffers(), torch.randn(5, 6), torch.randint(0, 3, (5,)), scale=1.0)
    for graph in (program.micro, program.update):
        placeholders = [node.name for node in graph.module.graph.nodes if node.op == "placeholder"]
        assert placeholders == [entry.node for entry in graph.inputs]
        output = next(node for node in graph.module.graph.nodes if node.op == "output")
        assert len(output.args[0]) == len(graph.outputs)


def test_a_loss_that_is_no_scalar_is_seeded_with_ones(capture_training, run_micro):
    class Vector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))

        def forward(self, x):
            return F.l1_loss(self.weight * x, torch.zeros_like(x), reduction="none")

    model = Vector()
    x = torch.tensor([5.0, 7.0])
    results = run_micro(capture_training(model, x), model, x)
    assert results.of(OutputKind.LOSS)["loss"].tolist() == [10.0, 21.0]  # |2 x 5|, |3 x 7|
    assert results.of(OutputKind.GRADIENT)["weight"].tolist() == [5.0, 7.0]  # d/dw of their sum
