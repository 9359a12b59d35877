"""Products of inference with large weights are oneDNN's, with weights that were packed when they were loaded."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from openipu.capture import capture_program
from openipu.graph import EngineMode, InputKind, RunOptions
from openipu.run import Executable
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine.micro import draft_micro
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.rewrites.products import onednn_products, packed_weights
from openipu.run.rewrites.products.packed_weights import PackedProduct, make_rules

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")
aten = torch.ops.aten
ROWS = torch.rand(16, 256, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """A weight as `nn.Linear` holds it, one as GPT-2 holds it, one without a bias, and a small one."""

    def __init__(self):
        super().__init__()
        self.linear, self.plain = nn.Linear(256, 512), nn.Linear(320, 512, bias=False)
        self.weight, self.bias = nn.Parameter(torch.randn(512, 320) / 16), nn.Parameter(torch.randn(320))
        self.small = nn.Linear(512, 4)

    def forward(self, rows):
        hidden = torch.addmm(self.bias, torch.tanh(self.linear(rows)), self.weight)
        return self.small(torch.tanh(self.plain(torch.tanh(hidden))))


class Writer(nn.Module):
    """Forward itself writes to its weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(512)[:256], requires_grad=False)

    def forward(self, rows):
        result = rows @ self.weight
        self.weight.add_(1)
        return result


def make_net(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return Net().to(dtype).eval()


def capture(model, rows=ROWS):
    return capture_program(model, (rows,), {}, training=False, optimizer=None, name="net")


def pack(model, rows=ROWS):
    """The draft, packed, and the names of its operators."""
    program = capture(model, rows)
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, make_rules(draft, DeviceMemory(program, 1)))
    draft.drop_unread_weights()
    targets = [node.target for node in draft.graph.find_nodes(op="call_function", target=aten.addmm.default)]
    packed = [node for node in draft.graph.nodes if isinstance(getattr(node.target, "__self__", None), PackedProduct)]
    return draft, len(packed), len(targets)


def test_large_weights_are_packed_and_small_ones_left_alone():
    draft, packed, plain = pack(make_net())
    assert (packed, plain) == (3, 1)
    held = {entry.name for entry in draft.inputs if entry.kind is InputKind.PARAMETER}
    assert held == {"bias", "linear.bias", "small.bias", "small.weight"}


@pytest.mark.parametrize("count", [1, 4])
def test_a_few_rows_are_not_worth_it(count):
    assert pack(make_net(), ROWS[:count])[1] == 0, f"{count} x 256 x 512 is below 2^21"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_results_follow_newly_loaded_weights(dtype):
    executable = Executable(capture(make_net(0, dtype), ROWS.to(dtype)), RunOptions())
    for seed in (0, 1):
        model = make_net(seed, dtype)
        executable.load_weights(dict(model.named_parameters()), {})
        expected = model.float()(ROWS.to(dtype).float())
        tolerance = 1e-5 if dtype is torch.float32 else 5e-3
        found = executable.run([ROWS.to(dtype)]).outputs[0]
        assert found.dtype is dtype
        torch.testing.assert_close(found.float(), expected, rtol=tolerance, atol=tolerance)


def test_a_weight_that_forward_writes_is_read_as_it_is():
    model = Writer()
    executable = Executable(capture(model), RunOptions())
    executable.load_weights(dict(model.named_parameters()), {})
    first, second = (executable.run([ROWS]).outputs[0] for _ in range(2))
    torch.testing.assert_close(second - first, ROWS.sum(1, keepdim=True).expand(16, 512))


def test_packing_stops_where_it_would_take_too_much_of_the_hosts_memory(monkeypatch):
    monkeypatch.setattr(packed_weights, "_read_host_bytes", lambda: 8 * 4 * (256 * 512 + 512 * 320))
    assert pack(make_net())[1:] == (2, 1), "an eighth of the host holds the first two weights"


def test_nothing_is_kept_of_an_executable_that_is_gone():
    program = capture(make_net())
    memory = DeviceMemory(program, 1)
    draft = draft_micro(program, RunOptions())
    apply_rules(draft.graph, make_rules(draft, memory))
    assert len(memory._followers) == 3
    del draft
    gc.collect()
    assert len(memory._followers) == 0


class AddedLater(nn.Module):
    """Products whose row is added by an op of its own, as graphs of other frameworks have it."""

    def __init__(self):
        super().__init__()
        self.weight, self.row = nn.Parameter(torch.randn(256, 512) / 16), nn.Parameter(torch.randn(512))
        self.twice = nn.Parameter(torch.randn(256, 512) / 16)

    def forward(self, rows):
        batch = rows.reshape(2, 8, 256)
        product = batch @ self.twice
        return self.row + batch @ self.weight, product + self.row, product


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU(), nn.GELU("tanh")], ids=str)
def test_what_is_not_a_number_stays_so(activation):
    torch.manual_seed(0)
    model, rows = nn.Sequential(nn.Linear(256, 512), activation).eval(), ROWS.clone()
    rows[3, 7] = torch.nan
    assert pack(model, rows)[1] == 1
    executable = Executable(capture(model, rows), RunOptions(engine=EngineMode.OPERATORS))
    executable.load_weights(dict(model.named_parameters()), {})
    with torch.no_grad():
        expected = model(rows)
    torch.testing.assert_close(executable.run([rows]).outputs[0], expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_a_row_that_is_added_to_a_product_alone_is_its_bias():
    torch.manual_seed(0)
    model = AddedLater().eval()
    draft, _, _ = pack(model)
    calls = [node.target for node in draft.graph.nodes if node.op == "call_function"]
    assert calls.count(aten.add.Tensor) == 1  # the other product is read without its row as well
    executable = Executable(capture(model), RunOptions())
    executable.load_weights(dict(model.named_parameters()), {})
    with torch.no_grad():
        for found, wanted in zip(executable.run([ROWS]).outputs, model(ROWS), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Head(nn.Module):
    """A wide weight as `nn.Linear` holds it, and one as GPT-2 holds it."""

    def __init__(self):
        super().__init__()
        self.linear, self.weight = nn.Linear(64, 20000, bias=False), nn.Parameter(torch.randn(64, 20000) / 8)

    def forward(self, rows):
        return self.linear(rows), rows @ self.weight


@pytest.mark.parametrize(("preferred", "packed"), [(True, 2), (False, 0)])
def test_one_row_and_a_wide_weight_are_onednns_where_mkl_uses_one_thread_for_them(monkeypatch, preferred, packed):
    monkeypatch.setattr(onednn_products, "_prefers_onednn", lambda: preferred)
    torch.manual_seed(0)
    model, row = Head().eval(), torch.randn(1, 64)
    assert pack(model, row)[1] == packed, "64 x 20,000 is more than 2^20"
    executable = Executable(capture(model, row), RunOptions(engine=EngineMode.OPERATORS))
    for _ in range(2):
        nn.init.normal_(model.weight)
        executable.load_weights(dict(model.named_parameters()), {})
        torch.testing.assert_close(executable.run([row]).outputs, model(row), rtol=1e-4, atol=1e-4)
