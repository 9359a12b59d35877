"""Elementwise cycles: the arithmetic of the formulas, and two measurements."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import pytest
import torch

from openipu.machine import Provenance
from openipu.ops import CostContext, Family, Operand, OpSite, Placement, StepKind, cost_op

FIGURES = Path(__file__).parents[1] / "data" / "published_figures.csv"
INSTRUMENTATION_CYCLES = 45  # TESS-003: what reading the cycle counter adds to a measurement
CALL = 82  # what starting a vertex takes beyond its estimate: the same in both published additions


def binary(op: str, elements: int, dtype: torch.dtype = torch.float32) -> OpSite:
    operand = Operand((elements,), dtype)
    return OpSite(op, (operand, operand), {}, (operand,))


def unary(op: str, elements: int, dtype: torch.dtype = torch.float32, **kwargs: object) -> OpSite:
    operand = Operand((elements,), dtype)
    return OpSite(op, (operand,), kwargs, (operand,))


def read_figure(row_id: str) -> tuple[int, float]:
    """Elements a tile, and microseconds."""
    with FIGURES.open(newline="", encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["id"] == row_id)
    return json.loads(row["params"])["elements/tile"], float(row["value"])


def test_a_float_add_takes_three_cycles_for_two_elements_of_each_of_six_workers(one_tile: CostContext) -> None:
    (step,) = cost_op(binary("aten.add.Tensor", 1024), one_tile).steps
    assert step.cycles == CALL + 11 + 6 * (29 + 86 * 3)  # 86 = ceil(1024 / (6 workers x 2 elements))
    assert step.flops == 1024
    assert step.kind is StepKind.COMPUTE


def test_a_half_add_takes_three_cycles_for_four_elements(one_tile: CostContext) -> None:
    (step,) = cost_op(binary("aten.add.Tensor", 1024, torch.float16), one_tile).steps
    assert step.cycles == CALL + 11 + 6 * (26 + 43 * 3)  # 43 = ceil(1024 / (6 x 4))


def test_exp_pays_its_longer_set_up(one_tile: CostContext) -> None:
    (step,) = cost_op(unary("aten.exp.default", 1200), one_tile).steps
    assert step.cycles == CALL + 20 + 6 * (33 + 100 * 6)  # 100 = 1200 / (6 x 2)


def test_a_scalar_operand_saves_a_load(one_tile: CostContext) -> None:
    operand = Operand((1200,), torch.float32)
    (step,) = cost_op(OpSite("aten.mul.Tensor", (operand, 0.5), {}, (operand,)), one_tile).steps
    assert step.cycles == CALL + 20 + 6 * (17 + 100 * 2)


def test_a_composite_is_the_sum_of_its_parts(one_tile: CostContext) -> None:
    cost = cost_op(unary("aten.softplus.default", 1200), one_tile)
    assert cost.cycles == CALL + 20 + 6 * (33 + 100 * (6 + 3 + 12))  # exp, add, log
    assert cost.provenance is Provenance.DERIVED


@pytest.mark.parametrize(
    ("exponent", "cycles_per_vector"), [(2, 2), (3, 2 + 3), (0.5, 10), (-0.5, 8), (-1, 6), (1.7, 2 * 39)]
)
def test_a_power_is_costed_by_its_exponent(one_tile: CostContext, exponent: float, cycles_per_vector: int) -> None:
    operand = Operand((1200,), torch.float32)
    cost = cost_op(OpSite("aten.pow.Tensor_Scalar", (operand, exponent), {}, (operand,)), one_tile)
    assert cost.cycles == CALL + 20 + 6 * (17 + 100 * cycles_per_vector)  # any other power: one element at a time


def test_the_published_add_of_1024_floats_a_tile_is_met_within_one_percent(bow: CostContext) -> None:
    elements, microseconds = read_figure("TESS-001")
    measured = microseconds * 1e-6 * bow.target.clock_hz
    modelled = cost_op(binary("aten.add.Tensor", elements * bow.tiles), bow).cycles + INSTRUMENTATION_CYCLES
    assert modelled == pytest.approx(measured, rel=0.01)


def test_the_published_add_of_10_floats_a_tile_is_met_within_one_percent(one_tile: CostContext) -> None:
    elements, microseconds = read_figure("TESS-002")
    measured = microseconds * 1e-6 * one_tile.target.clock_hz
    modelled = cost_op(binary("aten.add.Tensor", elements), one_tile).cycles + INSTRUMENTATION_CYCLES
    assert modelled == CALL + 11 + 6 * (29 + 1 * 3) + 45
    assert modelled == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("op", ["aten.add.Tensor", "aten.mul.Tensor", "aten.maximum.default", "aten.eq.Tensor"])
def test_half_is_cheaper_than_float(bow: CostContext, op: str) -> None:
    half = cost_op(binary(op, 1 << 22, torch.float16), bow)
    single = cost_op(binary(op, 1 << 22, torch.float32), bow)
    assert half.cycles < single.cycles


def test_the_rule_follows_the_described_machine(one_tile: CostContext) -> None:
    def change(**fields: float) -> CostContext:
        return dataclasses.replace(one_tile, target=dataclasses.replace(one_tile.target, **fields))

    site = binary("aten.add.Tensor", 1200)
    assert cost_op(site, change(workers_per_tile=12)).cycles == CALL + 11 + 12 * (29 + 50 * 3)  # 50 = 1200 / (12 x 2)
    assert cost_op(site, change(vector_bytes=16)).cycles == CALL + 11 + 6 * (29 + 50 * 3)  # 50 = 1200 / (6 x 4)
    assert cost_op(site, change(compute_scale=2.0)).cycles == CALL + 2 * (11 + 6 * (29 + 100 * 3))


def test_operands_of_one_shape_must_lie_alike_and_the_first_may_be_overwritten(bow: CostContext) -> None:
    cost = cost_op(binary("aten.add.Tensor", 4096), bow)
    assert (cost.family, cost.placement) == (Family.ELEMENTWISE, Placement.FOLLOW)
    assert cost.aligned
    assert cost.in_place


def test_a_comparison_cannot_overwrite_its_operand(bow: CostContext) -> None:
    operand = Operand((4096,), torch.float32)
    cost = cost_op(OpSite("aten.gt.Scalar", (operand, 0), {}, (Operand((4096,), torch.bool),)), bow)
    assert not cost.in_place


def test_a_row_that_is_added_to_a_matrix_is_broadcast_first(bow: CostContext) -> None:
    matrix, row = Operand((1472, 256), torch.float32), Operand((256,), torch.float32)
    broadcast, add = cost_op(OpSite("aten.add.Tensor", (matrix, row), {}, (matrix,)), bow).steps
    assert broadcast.kind is StepKind.EXCHANGE
    assert broadcast.cycles == 256 * 4 / 4  # each tile holds one row of 256 and needs all of the other
    assert broadcast.moved_bytes == 1472 * 256 * 4
    assert add.cycles == CALL + 11 + 6 * (29 + 22 * 2)  # 22 = ceil(256 / (6 x 2))


def test_exchange_follows_the_described_machine(bow: CostContext) -> None:
    matrix, row = Operand((1472, 256), torch.float32), Operand((256,), torch.float32)
    wide = dataclasses.replace(bow, target=dataclasses.replace(bow.target, exchange_bytes_per_cycle=8.0))
    broadcast = cost_op(OpSite("aten.add.Tensor", (matrix, row), {}, (matrix,)), wide).steps[0]
    assert broadcast.cycles == 256 * 4 / 8


def test_a_cast_runs_at_the_pace_of_its_wider_side(one_tile: CostContext) -> None:
    half, single = Operand((1200,), torch.float16), Operand((1200,), torch.float32)
    cost = cost_op(OpSite("aten._to_copy.default", (half,), {"dtype": torch.float32}, (single,)), one_tile)
    assert cost.cycles == 6 * (100 + 26)  # 600 vectors of 8 bytes over 6 workers


def test_nothing_is_done_for_no_elements(bow: CostContext) -> None:
    assert cost_op(binary("aten.add.Tensor", 0), bow).steps == ()


@pytest.mark.parametrize(
    ("op", "provenance"),
    [
        ("aten.exp.default", Provenance.PUBLISHED),
        ("aten.erf.default", Provenance.PUBLISHED),
        ("aten.expm1.default", Provenance.DERIVED),
        ("aten.erfc.default", Provenance.GUESSED),
        ("aten.sign.default", Provenance.GUESSED),
        ("aten.floor.default", Provenance.GUESSED),
        ("aten.asin.default", Provenance.GUESSED),
    ],
)
def test_a_rate_that_stands_in_for_another_op_is_marked_as_a_guess(
    one_tile: CostContext, op: str, provenance: Provenance
) -> None:
    assert cost_op(unary(op, 64), one_tile).provenance is provenance
