"""Activations behind packed products are computed with them; GELU that is written out is one operator."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from openipu.capture import capture_program
from openipu.graph import EngineMode, RunOptions
from openipu.run import Executable
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.fusion.written_gelu import RULES
from openipu.run.rewrites.products.packed_weights import PackedProduct, make_rules

aten = torch.ops.aten
ROWS = torch.randn(2, 16, 256, generator=torch.Generator().manual_seed(0))


INNER = math.sqrt(2 / math.pi)


def write_gelu(x, inner=INNER, cubic=0.044715):
    """As GPT-2 has it."""
    return 0.5 * x * (1.0 + torch.tanh(inner * (x + cubic * torch.pow(x, 3.0))))


class Net(nn.Module):
    def __init__(self, activation, twice=False):
        super().__init__()
        self.first, self.second = nn.Linear(256, 512), nn.Linear(512, 256)
        self.activation, self.twice = activation, twice

    def forward(self, rows):
        hidden = self.first(rows)
        found = self.second(self.activation(hidden))
        return (found, hidden) if self.twice else found


def capture(model):
    torch.manual_seed(0)
    return capture_program(model, (ROWS,), {}, training=False, optimizer=None, name="net")


def list_activations(model):
    """What the packed products of the model do after multiplying."""
    program = capture(model)
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, RULES)
    apply_rules(draft.graph, make_rules(draft, DeviceMemory(program, 1)))
    draft.graph.lint()
    products = [node for node in draft.graph.nodes if isinstance(getattr(node.target, "__self__", None), PackedProduct)]
    return [node.args[2:] for node in products]


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize(
    ("activation", "name"),
    [
        (torch.relu, ("relu", "")),
        (functional.gelu, ("gelu", "none")),
        (lambda x: functional.gelu(x, approximate="tanh"), ("gelu", "tanh")),
        (write_gelu, ("gelu", "tanh")),
        (torch.sin, ("none", "")),
    ],
    ids=["relu", "gelu", "gelu by tanh", "gelu written out", "sine"],
)
def test_an_activation_is_computed_with_the_product_in_front_of_it(activation, name):
    model = Net(activation)
    assert list_activations(model) == [name, ("none", "")]
    executable = Executable(capture(model), RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights(dict(model.named_parameters()), {})
    torch.testing.assert_close(executable.run([ROWS]).outputs[0], model(ROWS), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
def test_a_product_that_somebody_else_reads_keeps_its_own_values():
    model = Net(functional.gelu, twice=True)
    assert list_activations(model) == [("none", ""), ("none", "")]
    executable = Executable(capture(model), RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights(dict(model.named_parameters()), {})
    torch.testing.assert_close(executable.run([ROWS]).outputs, model(ROWS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: write_gelu(x, inner=0.8),
        lambda x: write_gelu(x, cubic=0.05),
        lambda x: 0.5 * x * (2.0 + torch.tanh(INNER * (x + 0.044715 * torch.pow(x, 3.0)))),
        lambda x: 0.5 * x.sin() * (1.0 + torch.tanh(INNER * (x + 0.044715 * torch.pow(x, 3.0)))),
        lambda x: 0.5 * x * (1.0 + torch.tanh(INNER * (x + 0.044715 * torch.pow(x, 2.0)))),
    ],
    ids=["inner", "cubic", "shift", "source", "power"],
)
def test_what_is_only_like_gelu_stays_as_it_is_written(other):
    draft = draft_micro(capture(Net(other)), RunOptions())
    apply_rules(draft.graph, RULES)
    assert not draft.graph.find_nodes(op="call_function", target=aten.gelu.default)
