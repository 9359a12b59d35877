"""Products pay for activations that another op left elsewhere; weights and inputs of the program lie ready."""

from __future__ import annotations

import pytest
import torch
from torch import nn

MOVE = "rearrange operands"


def find_moves(plan, op):
    """Cycles that each call of an op spends on bringing its operands."""
    indices = [entry.index for entry in plan.ops if entry.op == op]
    return [sum(step.cycles for step in plan.steps if step.op == index and step.name == MOVE) for index in indices]


def test_a_layer_behind_another_brings_its_input_and_the_first_does_not(make_plan):
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    plan = make_plan(model, (torch.randn(512, 256),))
    first, second = find_moves(plan, "aten.addmm.default")
    assert first == 0  # a stream from the host is written as its reader wants it
    entry = [entry for entry in plan.ops if entry.op == "aten.addmm.default"][1]
    splits = entry.plan["splits"]
    # Its piece of the input, 4 B a number in blocks of 8, less what the other tiles of its row bring: 4 B a cycle.
    piece = -(-512 // splits["width"]) * -(-64 // splits["in_channels"]) * 8 * 4
    assert second == pytest.approx(piece / splits["out_channels"] / 4, abs=1)


def test_what_is_brought_into_the_plan_s_own_room_is_held_once(make_plan):
    """Both layers have the same plan, so the same scratch, although only the second one's input has to come."""
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    plan = make_plan(model, (torch.randn(512, 512),))
    layers = [entry for entry in plan.ops if entry.op == "aten.addmm.default"]
    assert layers[0].plan["splits"]["out_channels"] > 1  # a part of the input arrives in either
    assert all(find_moves(plan, "aten.addmm.default")[1:])
    held = {variable.op: variable.mapping.peak_tile_bytes for variable in plan.variables if variable.kind == "scratch"}
    assert held[layers[0].index] == held[layers[1].index] <= layers[1].plan["temporary_bytes"] + 8


def test_both_operands_of_a_product_of_activations_are_brought(make_plan):
    class Scores(nn.Module):
        def forward(self, left, right):
            return left.relu() @ right.relu()

    class Weighted(nn.Module):
        def forward(self, left, right):
            return left.relu() @ right

    operands = torch.randn(8, 64, 64), torch.randn(8, 64, 64)
    (both,), (one,) = (find_moves(make_plan(model, operands), "aten.bmm.default") for model in (Scores(), Weighted()))
    assert both > one > 0


def test_what_is_brought_takes_room_beside_the_original(make_plan):
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    data = (torch.randn(4096, 256),)
    alone = make_plan(model[2], (torch.randn(4096, 512),))
    behind = make_plan(model, data)
    extra = [step for step in behind.steps if step.name == MOVE]
    assert extra
    assert behind.fit.peak_bytes > alone.fit.peak_bytes


def test_a_copy_between_ipus_is_written_as_its_reader_wants_it(make_plan):
    import poptorch

    model = nn.Sequential(nn.Linear(64, 64), poptorch.BeginBlock(nn.Linear(64, 64), ipu_id=1))
    plan = make_plan(model, (torch.randn(64, 64),))
    assert len(find_moves(plan, "aten.addmm.default")) == 2
    assert sum(find_moves(plan, "aten.addmm.default")) == 0
