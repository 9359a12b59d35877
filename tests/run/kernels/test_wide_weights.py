"""Half-precision weights of inference are converted to float32 when they are loaded, not in every call."""

from __future__ import annotations

import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer
from openipu.graph import InputKind, RunOptions
from openipu.run import Executable
from openipu.run.engine.micro import draft_micro

aten = torch.ops.aten


class Net(nn.Module):
    """A convolution and a linear layer; the first weight is also read as it is held."""

    def __init__(self):
        super().__init__()
        self.convolve, self.classify = nn.Conv2d(2, 3, 3), nn.Linear(27, 4)

    def forward(self, images):
        hidden = torch.relu(self.convolve(images)).flatten(1)
        return self.classify(hidden) + self.convolve.weight[0, 0, 0, 0]


class Counter(nn.Module):
    """Forward itself writes to a weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.half), requires_grad=False)

    def forward(self, rows):
        result = rows @ self.weight
        self.weight.add_(1)
        return result


IMAGES = torch.rand(2, 2, 5, 5, generator=torch.Generator().manual_seed(0)).half()


def make_net(seed):
    torch.manual_seed(seed)
    return Net().half()


def capture(model, *inputs):
    return capture_program(model.eval(), inputs, {}, training=False, optimizer=None, name="net")


def run(executable, model, *inputs):
    executable.load_weights(dict(model.named_parameters()), {})
    return executable.run(list(inputs)).outputs[0]


def compute_by_hand(model):
    convolve, classify = model.convolve, model.classify
    hidden = nn.functional.conv2d(IMAGES.float(), convolve.weight.float(), convolve.bias.float()).half()
    logits = nn.functional.linear(torch.relu(hidden).flatten(1).float(), classify.weight.float(), classify.bias.float())
    return logits.half() + convolve.weight[0, 0, 0, 0]


def list_conversions(draft):
    """Conversions of weights, by the name of the placeholder."""
    return [
        node.args[0].name
        for node in draft.graph.find_nodes(op="call_function", target=aten._to_copy.default)
        if node.args[0].op == "placeholder" and "images" not in node.args[0].name
    ]


def test_no_call_of_inference_converts_a_weight():
    draft = draft_micro(capture(make_net(0), IMAGES), RunOptions())
    assert list_conversions(draft) == []
    held = [(entry.name, entry.dtype) for entry in draft.inputs if entry.kind is InputKind.PARAMETER]
    assert sorted(held, key=str) == [
        ("classify.bias", torch.float32),
        ("classify.weight", torch.float32),
        ("convolve.bias", torch.float32),
        ("convolve.weight", torch.float16),
        ("convolve.weight", torch.float32),
    ]


def test_results_are_rounded_as_before_and_follow_newly_loaded_weights():
    executable = Executable(capture(make_net(0), IMAGES), RunOptions())
    for seed in (0, 1):
        model = make_net(seed)
        assert torch.equal(run(executable, model, IMAGES), compute_by_hand(model))


def test_training_converts_weights_in_every_step():
    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(3, 2).half()

        def forward(self, rows):
            return nn.functional.mse_loss(self.body(rows), rows[:, :2])

    wrapped = WithLoss()
    spec = describe_optimizer(
        torch.optim.SGD(wrapped.parameters(), 0.1), {id(value): name for name, value in wrapped.named_parameters()}
    )
    rows = torch.rand(4, 3).half()
    program = capture_program(wrapped, (rows,), {}, training=True, optimizer=spec, name="net")
    draft = draft_micro(program, RunOptions(training=True))
    held = {entry.dtype for entry in draft.inputs if entry.kind is InputKind.PARAMETER}
    assert held == {torch.float16}


def test_a_weight_that_forward_writes_is_converted_each_time():
    executable = Executable(capture(Counter(), torch.ones(1, 2).half()), RunOptions())
    model = Counter()
    executable.load_weights(dict(model.named_parameters()), {})
    rows = torch.ones(1, 2).half()
    found = [executable.run([rows]).outputs[0][0, 0].item() for _ in range(3)]
    assert found == [2.0, 4.0, 6.0]
