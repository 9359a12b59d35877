"""Convolutions in groups, and over few channels: what the first software did differently."""

from __future__ import annotations

import dataclasses
import math

import pytest

from openipu.ops.cost import CostContext
from openipu.ops.linear import Convolution, cost_convolution, cost_matmul

REGROUP = "order results of groups"


def pointwise(groups: int, channels: int) -> Convolution:
    return Convolution(groups, 4, 14, 14, 1, 1, channels, channels)


def names(cost):
    return [step.name for step in cost.steps]


def test_results_of_groups_are_put_into_the_order_of_channels_once(on_mk1: CostContext) -> None:
    cost = cost_convolution(pointwise(32, 16), on_mk1)
    (copy,) = (step for step in cost.steps if step.name == REGROUP)
    held = 32 * 4 * 14 * 14 * 16 / cost.plan["tiles"]  # results on a tile, four to a vector
    workers_share = math.ceil(math.ceil(held * 2 / 8) / 6)
    assert copy.cycles == pytest.approx(1.2 * (20 + 6 * (17 + workers_share)))


def test_a_convolution_without_groups_and_a_batched_matmul_need_no_such_copy(on_mk1: CostContext) -> None:
    assert REGROUP not in names(cost_convolution(pointwise(1, 16), on_mk1))
    batched = cost_matmul(batches=32, rows=64, inner=64, columns=64, half=True, context=on_mk1)
    assert REGROUP not in names(batched)


def test_a_rearranged_operand_lies_in_order_already(on_mk1: CostContext) -> None:
    cost = cost_convolution(pointwise(32, 8), on_mk1)  # 8 channels are filled up to 16
    assert "rearrange operands" in names(cost)
    assert REGROUP not in names(cost)


def test_groups_of_few_channels_run_on_the_vector_path_of_mk1_alone(on_mk1: CostContext, on_bow: CostContext) -> None:
    problem = Convolution(32, 4, 56, 56, 3, 3, 4, 4)
    assert cost_convolution(problem, on_mk1).plan["method"] == "HMAC"
    assert cost_convolution(problem, on_bow).plan["method"].startswith("AMP")


def test_a_batched_matmul_over_few_channels_keeps_the_amp_units_on_mk1(on_mk1: CostContext) -> None:
    cost = cost_matmul(batches=8, rows=4096, inner=4, columns=256, half=True, context=on_mk1)
    assert cost.plan["method"].startswith("AMP")


def test_images_of_few_channels_are_slower_by_one_factor_on_mk1(on_mk1: CostContext) -> None:
    plain = dataclasses.replace(on_mk1, target=dataclasses.replace(on_mk1.target, few_channel_scale=1.0))
    colours, many = (Convolution(1, 4, 112, 112, 7, 7, channels, 64, 2, 2) for channels in (3, 16))
    assert cost_convolution(colours, on_mk1).cycles > 2 * cost_convolution(colours, plain).cycles
    assert cost_convolution(many, on_mk1).cycles == cost_convolution(many, plain).cycles
