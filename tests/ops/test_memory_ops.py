"""Gather, scatter, pooling, layout, random numbers, constants and views."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from openipu.errors import PlanError
from openipu.machine import Provenance
from openipu.ops import (
    CostContext,
    Family,
    Operand,
    OpSite,
    Placement,
    StepKind,
    Trait,
    cost_op,
    find_rule,
    has_trait,
    list_ops,
)
from openipu.ops.rules.views import VIEWS, cost_view

F32, F16, I64 = torch.float32, torch.float16, torch.int64


def embedding(entries: int, row: int, lookups: int) -> OpSite:
    table, indices = Operand((entries, row), F16), Operand((lookups,), I64)
    return OpSite("aten.embedding.default", (table, indices), {}, (Operand((lookups, row), F16),))


def test_a_lookup_on_one_tile_is_one_slice(one_tile: CostContext) -> None:
    exchange, slice_step = cost_op(embedding(100, 64, 12), one_tile).steps
    assert exchange.cycles == 12 * 4 / 4  # twelve indices of four bytes
    assert slice_step.cycles == 6 * (30 + 2 * (19 + 2 * 32))  # two lookups a worker, 32 pairs of halves each


def test_an_embedding_is_split_over_the_chip(bow: CostContext) -> None:
    cost = cost_op(embedding(30522, 768, 512), bow)
    splits = cost.plan["column_splits"] * cost.plan["entry_splits"] * cost.plan["lookup_splits"]
    assert cost.family is Family.GATHER
    assert 1 < splits <= bow.tiles
    assert cost.scratch_bytes_per_tile <= bow.available_memory_proportion * bow.target.tile_memory_bytes


def test_less_memory_never_makes_a_gather_faster(bow: CostContext) -> None:
    site = embedding(50257, 1024, 4096)
    tight = dataclasses.replace(bow, available_memory_proportion=0.01)
    roomy = dataclasses.replace(bow, available_memory_proportion=0.9)
    assert cost_op(site, tight).scratch_bytes_per_tile <= cost_op(site, roomy).scratch_bytes_per_tile
    assert len(cost_op(site, tight).steps) > 0


def test_the_gradient_of_an_embedding_zeroes_the_table_and_adds_rows(bow: CostContext) -> None:
    gradient, indices = Operand((512, 768), F32), Operand((512,), I64)
    args = (gradient, indices, 30522, -1, False)
    cost = cost_op(OpSite("aten.embedding_dense_backward.default", args, {}, (Operand((30522, 768), F32),)), bow)
    assert cost.family is Family.SCATTER
    assert cost.steps[0].name == "table"
    assert any(step.name == "add rows" for step in cost.steps)


def scatter(op: str, nodes: int, edges: int, features: int, repeated: tuple[int, ...]) -> OpSite:
    table, index = Operand((nodes, features), F32), Operand((edges, features), I64, repeated)
    if op == "gather":
        return OpSite("aten.gather.default", (table, 0, index), {}, (Operand((edges, features), F32),))
    args = (table, 0, index, Operand((edges, features), F32))
    return OpSite(f"aten.{op}", (*args, "amax") if "reduce" in op else args, {}, (table,))


@pytest.mark.parametrize("op", ["scatter_add.default", "scatter_reduce.two"])
def test_an_index_that_is_expanded_over_features_adds_rows(op: str, one_tile: CostContext) -> None:
    rows = next(step for step in cost_op(scatter(op, 100, 12, 64, (1,)), one_tile).steps if step.name == "add rows")
    assert rows.cycles == 6 * (33 + 2 * (12 + 3 * 31))  # two rows a worker, each of 32 pairs of floats
    single = next(step for step in cost_op(scatter(op, 100, 12, 64, ()), one_tile).steps if step.name == "add rows")
    assert single.cycles == 6 * (33 + 2 * 64 * 12)  # 12 x 64 elements, each by itself: 128 a worker


def copy_rows(entries: int, lookups: int, row: int) -> OpSite:
    table, index = Operand((entries, row), F32), Operand((lookups,), I64)
    return OpSite("aten.index_copy.default", (table, 0, index, Operand((lookups, row), F32)), {}, (table,))


def test_rows_that_replace_others_are_written_and_not_added_up(one_tile: CostContext) -> None:
    table, exchange, rows = cost_op(copy_rows(100, 12, 64), one_tile).steps
    assert table.name == "table"
    assert exchange.cycles == 12 * (64 * 4 + 4) / 4  # twelve rows of 64 floats, each with its index
    assert rows.cycles == 6 * (33 + 2 * (12 + 3 * 31))
    assert rows.flops == 0


def test_a_row_of_a_large_table_needs_no_second_table(bow: CostContext) -> None:
    cost = cost_op(copy_rows(64, 1, 1 << 20), bow)  # 256 MiB, of which one row of 4 MiB is replaced
    columns = cost.plan["column_splits"]
    assert cost.scratch_bytes_per_tile == -(-(1 << 20) // columns) * 4 + 4  # a tile's part of the row, and the index
    assert cost.in_place


def test_an_index_that_is_expanded_over_features_takes_rows(one_tile: CostContext) -> None:
    exchange, slices = cost_op(scatter("gather", 100, 12, 64, (1,)), one_tile).steps
    assert exchange.cycles == 12 * 4 / 4  # twelve indices of four bytes, not 768
    assert slices.cycles == 6 * (30 + 2 * (19 + 2 * 32))


def test_groups_of_an_index_that_is_expanded_are_rows_too(one_tile: CostContext) -> None:
    table, index = Operand((3, 50, 16), F32), Operand((3, 8, 16), I64, (2,))
    cost = cost_op(OpSite("aten.gather.default", (table, 1, index), {}, (Operand((3, 8, 16), F32),)), one_tile)
    assert cost.steps[-1].cycles == 6 * (30 + 4 * (19 + 2 * 8))  # 24 rows of 16 floats, four a worker


def test_max_pool_visits_each_place_of_its_window(one_tile: CostContext) -> None:
    image, result = Operand((1, 8, 6, 6), F32), Operand((1, 8, 3, 3), F32)
    site = OpSite(
        "aten.max_pool2d_with_indices.default", (image, [2, 2], [2, 2]), {}, (result, Operand(result.shape, I64))
    )
    exchange, pool = cost_op(site, one_tile).steps
    assert exchange.cycles == 8 * 6 * 6 * 4 / 4  # the whole input, once
    # 72 results = 36 vectors, 6 a worker, 4 places of 3 cycles; 12 rows of 3 vectors, 2 a worker
    assert pool.cycles == 20 + 6 * (17 + 6 * 4 * 3 + 2 * 30)


def test_the_gradient_of_a_maximum_is_slower_than_that_of_an_average(bow: CostContext) -> None:
    image, result = Operand((8, 64, 56, 56), F32), Operand((8, 64, 28, 28), F32)
    window = ([2, 2], [2, 2], [0, 0])
    maximum = OpSite(
        "aten.max_pool2d_with_indices_backward.default",
        (result, image, *window, [1, 1], False, Operand(result.shape, I64)),
        {},
        (image,),
    )
    average = OpSite("aten.avg_pool2d_backward.default", (result, image, *window, False, True, None), {}, (image,))
    assert cost_op(maximum, bow).cycles > cost_op(average, bow).cycles


def test_a_plain_clone_stays_on_its_tile_but_a_new_order_is_exchanged(bow: CostContext) -> None:
    operand = Operand((1472, 256), F32)
    plain = cost_op(OpSite("aten.clone.default", (operand,), {}, (operand,)), bow)
    ordered = cost_op(
        OpSite("aten.clone.default", (operand,), {"memory_format": torch.contiguous_format}, (operand,)), bow
    )
    assert [step.kind for step in plain.steps] == [StepKind.COMPUTE]
    assert plain.placement is Placement.FOLLOW
    assert [step.kind for step in ordered.steps] == [StepKind.EXCHANGE, StepKind.COMPUTE]
    assert ordered.steps[0].cycles == 256 * 4 / 4


def test_joining_moves_every_byte_of_the_result(bow: CostContext) -> None:
    part, whole = Operand((1472, 64), F32), Operand((1472, 128), F32)
    cost = cost_op(OpSite("aten.cat.default", ([part, part], 1), {}, (whole,)), bow)
    assert cost.steps[0].moved_bytes == whole.bytes


def test_the_gradient_of_a_slice_fills_the_rest_with_zeros(bow: CostContext) -> None:
    piece, whole = Operand((16, 32), F32), Operand((1024, 32), F32)
    cost = cost_op(OpSite("aten.slice_backward.default", (piece, [1024, 32], 0, 0, 16, 1), {}, (whole,)), bow)
    assert [step.name for step in cost.steps] == ["rest of the tensor", "place piece", "place piece: copy"]


def test_random_numbers_take_four_cycles_a_vector_and_dropout_two(one_tile: CostContext) -> None:
    operand = Operand((1200,), F32)
    uniform = cost_op(OpSite("aten.rand.default", ([1200],), {}, (operand,)), one_tile)
    dropout = cost_op(OpSite("aten.native_dropout.default", (operand, 0.1, True), {}, (operand, operand)), one_tile)
    assert uniform.cycles == 4 + 6 * 22 + 4 * 600
    assert dropout.cycles == 6 + 6 * 24 + 2 * 600


def test_zeros_are_stored_and_uninitialised_memory_is_not(bow: CostContext) -> None:
    result = Operand((1472, 120), F32)
    zeros = cost_op(OpSite("aten.zeros.default", ([1472, 120],), {}, (result,)), bow)
    empty = cost_op(OpSite("aten.empty.memory_format", ([1472, 120],), {}, (result,)), bow)
    assert zeros.cycles == 82 + 20 + 6 * (17 + 10)  # a call, 60 vectors over 6 workers
    assert zeros.family is Family.CONSTANT
    assert empty.steps == ()


@pytest.mark.parametrize("op", [op for op, rule in VIEWS.items() if rule is cost_view])
def test_views_are_free(bow: CostContext, op: str) -> None:
    operand = Operand((64, 64), F32)
    cost = cost_op(OpSite(f"{op}.default", (operand,), {}, (operand,)), bow)
    assert has_trait(f"{op}.default", Trait.VIEW)
    assert (cost.family, cost.placement, cost.steps) == (Family.VIEW, Placement.ALIAS, ())


def test_nothing_but_views_is_a_view() -> None:
    assert not has_trait("aten.clone.default", Trait.VIEW)
    assert not has_trait("aten.unheard_of.default", Trait.VIEW)
    assert sum(has_trait(op, Trait.VIEW) for op in list_ops()) == sum(rule is cost_view for rule in VIEWS.values())


def test_an_unknown_op_is_costed_as_bytes_moved_and_marked(bow: CostContext) -> None:
    operand, result = Operand((1472, 64), F32), Operand((1472, 32), F32)
    cost = cost_op(OpSite("mine.strange.default", (operand, operand), {}, (result,)), bow)
    assert (cost.family, cost.provenance) == (Family.UNKNOWN, Provenance.GUESSED)
    assert cost.basis == "no row: bytes moved"
    exchange = cost.steps[0]
    assert exchange.cycles == 2 * 64 * 4 / 4  # two operands of 64 floats a tile
    assert [step.name for step in cost.steps[1:]] == ["read operand", "read operand", "write result"]
    assert all(step.cycles > 0 for step in cost.steps)


def test_a_call_that_its_rule_cannot_read_is_reported_with_the_argument(bow: CostContext) -> None:
    with pytest.raises(PlanError, match=r"aten\.embedding\.default.*'weight'.*report"):
        cost_op(OpSite("aten.embedding.default", (None, None), {}, ()), bow)


def test_a_row_serves_all_overloads_and_the_in_place_form() -> None:
    add = find_rule("aten.add.Tensor")
    assert add is not None
    assert find_rule("aten.add.Scalar") is add
    assert find_rule("aten.add_.Tensor") is add
    assert find_rule("aten.div_.Tensor_mode") is find_rule("aten.div.Tensor_mode") is not find_rule("aten.div.Tensor")
    assert find_rule("aten.addition.Tensor") is None
    assert find_rule("other.add.Tensor") is None
