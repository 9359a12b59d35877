"""Values that are rounded by chance and stay in float32: the same numbers as through half."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import fx, nn

from openipu.capture import capture_program, describe_optimizer, read_hyper_parameters
from openipu.graph import RunOptions
from openipu.numerics import Overflow
from openipu.run import Executable, thresholds
from openipu.run.drafts.draft import Draft
from openipu.run.drafts.rules import apply_rules
from openipu.run.engine import pass_list
from openipu.run.rewrites.half.keep_wide import ROUNDED_WIDE
from openipu.run.rewrites.half.stochastic_rounding import (
    Rows,
    round_in_place,
    round_rows_into,
    round_stochastically,
    round_wide,
)
from openipu.run.rewrites.in_place.accumulation import add_rounded_rows

aten = torch.ops.aten
SEED = torch.tensor(7, dtype=torch.int32)
WORDS, WIDTH = 400, 24


class Reader(nn.Module):
    """Every kind of place at which a rounded value is read: products, norms, copies, a mask, a branch, an embedding."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.norm = nn.LayerNorm(WIDTH)
        self.first, self.second = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)
        self.half()

    def forward(self, places):
        x = self.words(places)
        y = F.dropout(self.norm(x), 0.3)
        z = self.second(F.gelu(self.first(y).transpose(0, 1).contiguous().transpose(0, 1)))
        return F.mse_loss((x + z).relu(), torch.ones_like(x))


def train(**settings):
    model = Reader()
    places = torch.randint(0, WORDS, (8, 6), generator=torch.Generator().manual_seed(1))
    places[0, :4] = torch.tensor([0, 3, 3, 3])  # padding, and a word several times
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    spec = describe_optimizer(optimizer, names)
    program = capture_program(model, (places[:2],), {}, training=True, optimizer=spec, name="reader")
    options = RunOptions(
        training=True, gradient_accumulation=4, stochastic_rounding=True, random_seed=3, batching=False, **settings
    )
    executable = Executable(program, options)
    executable.load_weights(dict(model.named_parameters()), {})
    executable.set_hyper_parameters(read_hyper_parameters(optimizer, spec))
    losses = [executable.run([places]).outputs[0] for _ in range(2)]
    executable.read_weights(dict(model.named_parameters()), {})
    return torch.stack(losses), [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("settings", [{}, {"half_overflow": Overflow.SATURATE}], ids=["infinity", "saturate"])
def test_a_step_gives_the_same_bits_as_through_half(monkeypatch, settings):
    found = train(**settings)
    monkeypatch.setattr(
        "openipu.run.engine.pass_list.BOUND",
        tuple(entry for entry in pass_list.BOUND if entry.name != "keep rounded values in float32"),
    )
    monkeypatch.setattr(thresholds, "SPARSE_EMBEDDING_ROWS", float("inf"))
    expected = train(**settings)
    assert torch.equal(found[0], expected[0])
    for new, old in zip(found[1], expected[1], strict=True):
        assert torch.equal(new, old)


def write_draft(read_twice):
    """round(a * b), read in float32 and in half; `a * b` itself is read as well, or not."""
    graph = fx.Graph()
    left, right, seed = (graph.placeholder(name) for name in ("left", "right", "seed"))
    left.meta["val"] = right.meta["val"] = torch.empty(4, 4, device="meta")
    values = graph.call_function(aten.mul.Tensor, (left, right))
    values.meta["val"] = torch.empty(4, 4, device="meta")
    rounded = graph.call_function(round_stochastically, (values, seed, 0, [4, 4], "infinity"))
    rounded.meta["val"] = torch.empty(4, 4, device="meta", dtype=torch.half)
    turned = graph.call_function(aten.t.default, (rounded,))
    turned.meta["val"] = rounded.meta["val"].t()
    wide = graph.call_function(aten._to_copy.default, (turned,), {"dtype": torch.float32})
    wide.meta["val"] = torch.empty(4, 4, device="meta")
    graph.output((wide, rounded, *([values] if read_twice else [])))
    return Draft(graph, (), (), {})


@pytest.mark.parametrize("read_twice", [False, True])
def test_only_values_that_nobody_else_reads_are_overwritten(read_twice):
    draft = write_draft(read_twice)
    apply_rules(draft.graph, ROUNDED_WIDE)
    targets = [node.target for node in draft.graph.nodes if node.op == "call_function"]
    rounding = round_wide if read_twice else round_in_place
    assert targets == [aten.mul.Tensor, rounding, aten._to_copy.default, aten.t.default]
    left, right = torch.randn(4, 4), torch.randn(4, 4)
    results = fx.Interpreter(fx.GraphModule({}, draft.graph)).run(left, right, SEED)
    expected = round_stochastically(left * right, SEED, 0, (4, 4), "infinity")
    assert torch.equal(results[0], expected.t().float())
    assert torch.equal(results[1], expected)
    if read_twice:
        assert torch.equal(results[2], left * right)


@pytest.mark.parametrize("overflow", list(Overflow))
def test_rows_of_a_sample_have_the_bits_of_the_whole(overflow):
    values = torch.randn(9, 5) * torch.logspace(-8, 6, 9)[:, None]
    whole = round_stochastically(values, SEED, 2, (9, 5), overflow.value)
    for rows, chosen in (
        (Rows(3, 4, 5), slice(3, 7)),
        (Rows(0, 3, 5, torch.tensor([8, 0, 4])), torch.tensor([8, 0, 4])),
    ):
        part = values[chosen].contiguous()
        found = torch.empty_like(part, dtype=torch.half)
        round_rows_into(found, part, SEED, 2, rows, overflow.value)
        torch.testing.assert_close(found, whole[chosen], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("seed", [None, SEED], ids=["to nearest", "by chance"])
@pytest.mark.parametrize("padding", [-1, 3])
def test_rows_of_an_embedding_are_added_as_its_whole_gradient_is(seed, padding):
    gradient, places = torch.randn(5, 8), torch.tensor([3, 90, 3, 17, 90])
    total = torch.randn(100, 8).half()
    dense = aten.embedding_dense_backward(gradient, places, 100, padding, False)
    rounded = dense.half() if seed is None else round_stochastically(dense, seed, 1, (100, 8), "infinity")
    expected = total.clone().add_(rounded, alpha=0.25)
    add_rounded_rows(total, gradient, places, padding, 0.25, seed, 1, "infinity")
    assert torch.equal(total, expected)
