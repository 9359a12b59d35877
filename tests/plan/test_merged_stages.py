"""A pipeline with a block for each layer: stages that follow one another on the same IPU are one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from openipu.capture import set_block
from openipu.graph import Strategy
from openipu.plan import VariableKind

WIDTH = 64


class Blocks(nn.Module):
    """One layer a block. Each begins a stage of its own, numbered from `first`, or has the number of its IPU."""

    def __init__(self, ipus: tuple[int, ...], first: int, by_ipu: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in ipus)
        self.ipus, self.first, self.by_ipu = ipus, first, by_ipu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage, (layer, ipu) in enumerate(zip(self.layers, self.ipus, strict=True), start=self.first):
            set_block(f"block{stage}", ipu, ipu if self.by_ipu else stage)
            x = torch.tanh(layer(x))
        return nn.functional.mse_loss(x, torch.zeros_like(x))


@pytest.fixture
def plan_blocks(make_plan):
    def build(ipus, first=1, by_ipu=False, **options):
        model = Blocks(ipus, first, by_ipu)
        options = {"gradient_accumulation": 8, "system": "bow-pod16", **options}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return make_plan(model, (torch.randn(64, WIDTH),), optimizer=optimizer, **options)

    return build


def test_blocks_of_one_ipu_are_one_stage(plan_blocks):
    pipeline = plan_blocks((0, 0, 1, 1)).pipeline
    assert [stage.ipu for stage in pipeline.stages] == [0, 1, 0]  # 2 S - 1 = 3 for S = 2
    assert all(stage.cycles > 0 for stage in pipeline.stages)


def test_a_return_to_an_ipu_is_a_stage_of_its_own(plan_blocks):
    pipeline = plan_blocks((0, 1, 1, 0)).pipeline
    assert [stage.ipu for stage in pipeline.stages] == [0, 1, 0, 1, 0]  # S = 3


@pytest.mark.parametrize("first", [0, 1, 5])
def test_no_empty_stage_stands_in_front(plan_blocks, first):
    assert len(plan_blocks((0, 1), first).pipeline.stages) == 3


def test_a_block_for_each_layer_costs_what_a_block_for_each_ipu_costs(plan_blocks):
    def measure(plan):
        stash = sum(variable.bytes for variable in plan.variables if variable.kind is VariableKind.STASH)
        return plan.pipeline.steady_cycles, len(plan.pipeline.fill_cycles), stash

    assert measure(plan_blocks((0, 0, 1, 1))) == measure(plan_blocks((0, 0, 1, 1), by_ipu=True))


def test_one_ipu_has_no_pipeline_however_many_blocks(plan_blocks):
    assert plan_blocks((0, 0, 0)).pipeline is None


def test_stages_that_take_turns_keep_their_numbers(plan_blocks):
    plan = plan_blocks((0, 0, 1), strategy=Strategy.SHARDED, gradient_accumulation=1)
    assert {op.stage for op in plan.ops} >= {1, 2, 3}
