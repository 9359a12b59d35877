"""Large float32 products are oneDNN's on processors where that is quicker."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import RunOptions
from openipu.run import Executable
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.rewrites.products import onednn_products as products
from openipu.run.rewrites.products.onednn_products import make_rules, multiply

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
aten = torch.ops.aten


class Net(nn.Module):
    """Two large layers and a small one, with a loss."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.small = nn.Linear(256, 320), nn.Linear(320, 256, bias=False), nn.Linear(256, 4)

    def forward(self, rows, labels):
        hidden = self.second(torch.tanh(self.first(rows)))
        return nn.functional.cross_entropy(self.small(torch.tanh(hidden)), labels)


@pytest.fixture(autouse=True, params=[True, False], ids=["oneDNN", "MKL"])
def preferred(request, monkeypatch):
    monkeypatch.setattr(products, "_prefers_onednn", lambda: request.param)
    return request.param


def capture(count=32):
    torch.manual_seed(0)
    model, batch = Net(), (torch.rand(count, 256), torch.randint(4, (count,)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    spec = describe_optimizer(optimizer, {id(value): name for name, value in model.named_parameters()})
    program = capture_program(model, batch, {}, training=True, optimizer=spec, name="net")
    return model, batch, optimizer, program, read_hyper_parameters(optimizer, spec)


def count_calls(draft, *targets):
    return sum(node.target in targets for node in draft.graph.nodes)


def test_forward_and_the_gradients_of_its_rows_change_the_library(preferred):
    draft = draft_micro(capture()[3], RunOptions(training=True))
    products_before = count_calls(draft, aten.mm.default, aten.addmm.default)
    apply_rules(draft.graph, make_rules())
    # Two large layers forward, and the gradient of the second one's rows: the first one's rows are the input.
    # Gradients of weights are products of transposed rows.
    assert count_calls(draft, multiply) == (3 if preferred else 0)
    assert count_calls(draft, aten.mm.default, aten.addmm.default) == products_before - (3 if preferred else 0)


def test_small_products_stay_with_pytorch():
    draft = draft_micro(capture(count=8)[3], RunOptions(training=True))
    apply_rules(draft.graph, make_rules())
    assert count_calls(draft, multiply) == 0, "8 x 256 x 320 is below 2^21"


def test_training_computes_the_same():
    model, batch, optimizer, program, values = capture()
    executable = Executable(program, RunOptions(training=True))
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(values)
    for _ in range(5):
        executable.run(batch)
        optimizer.zero_grad()
        model(*batch).backward()
        optimizer.step()
    found = {key: torch.empty_like(value) for key, value in model.named_parameters()}
    executable.read_weights(found, {})
    for key, value in model.named_parameters():
        torch.testing.assert_close(found[key], value.detach(), rtol=1e-5, atol=1e-6)


def test_nothing_changes_where_somebody_has_switched_onednn_off(monkeypatch):
    draft = draft_micro(capture()[3], RunOptions(training=True))
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    apply_rules(draft.graph, make_rules())
    assert count_calls(draft, multiply) == 0


@pytest.mark.parametrize("bias", [None, torch.rand(64)], ids=["without a bias", "with a bias"])
@pytest.mark.parametrize(
    "weight",
    [torch.rand(64, 96), torch.rand(96, 64).t(), torch.rand(64, 128)[:, :96], torch.rand(128, 64)[:96].t()],
    ids=["dense", "dense and transposed", "a slice of rows", "a slice, transposed"],
)
def test_every_layout_of_a_weight_gives_the_product(weight, bias):
    rows = torch.rand(8, 128)[:, :96]
    torch.testing.assert_close(multiply(rows, weight, bias), nn.functional.linear(rows, weight, bias))


def test_a_slice_of_a_weight_is_left_to_pytorch(monkeypatch):
    """oneDNN would need hundreds of times as long."""
    monkeypatch.setattr(products, "_run_onednn", lambda *arguments: pytest.fail("oneDNN was called"))
    multiply(torch.rand(8, 96), torch.rand(64, 128)[:, :96], None)
