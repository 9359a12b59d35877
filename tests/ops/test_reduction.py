"""Reductions: on the tile, then partials exchanged and reduced again."""

from __future__ import annotations

import torch

from openipu.ops import CostContext, Family, Operand, OpSite, StepKind, cost_op


def reduce(op: str, shape: tuple[int, ...], dims: object, dtype: torch.dtype = torch.float32) -> OpSite:
    kept = tuple(size for dim, size in enumerate(shape) if isinstance(dims, list) and dim not in dims)
    return OpSite(op, (Operand(shape, dtype), dims), {}, (Operand(kept, dtype),))


def kinds(site: OpSite, context: CostContext) -> list[StepKind]:
    return [step.kind for step in cost_op(site, context).steps]


COMPUTE, EXCHANGE = StepKind.COMPUTE, StepKind.EXCHANGE


def test_whole_rows_on_each_tile_need_no_exchange(bow: CostContext) -> None:
    site = reduce("aten.sum.dim_IntList", (1472 * 6, 32), [1])
    (step,) = cost_op(site, bow).steps
    assert step.cycles == 33 + 6 * (20 + 1 * (12 + 16))  # 6 rows a tile, one a worker; 16 vectors of two
    assert step.flops == 1472 * 6 * 32


def test_columns_are_reduced_on_tile_then_over_tiles_in_two_stages(bow: CostContext) -> None:
    """[1472 x 8, 64]: each tile holds 8 rows, so 1,472 tiles hold partials of each of 64 sums."""
    site = reduce("aten.sum.dim_IntList", (1472 * 8, 64), [0])
    on_tile, partials, intermediate, rest, final, results = cost_op(site, bow).steps
    assert on_tile.cycles == 33 + 6 * (20 + 6 * (8 + 11))  # 32 columns of 8 bytes over 6 workers
    # 39 = ceil(sqrt(1472)) partials each; 38 groups x 64 sums = 2,432 results, two a tile
    assert partials.cycles == (39 - 1) * 2 * 4 / 4
    assert partials.messages_per_tile == 39
    assert intermediate.cycles == 6 * (32 + (3 * 39 + 7) * 1)
    assert rest.cycles == (38 - 1) * 2 * 4 / 4
    assert final.cycles == 6 * (32 + (3 * 38 + 7) * 1)
    assert results.cycles == 32 * 4 / 4  # to the two tiles where 64 floats lie


def test_a_row_over_many_tiles_needs_more_stages_than_one_over_a_few(bow: CostContext) -> None:
    assert kinds(reduce("aten.sum.dim_IntList", (16, 1 << 16), [1]), bow) == [
        COMPUTE,
        EXCHANGE,
        COMPUTE,
        EXCHANGE,
        COMPUTE,
    ]
    assert kinds(reduce("aten.sum.dim_IntList", (64, 1 << 12), [1]), bow) == [COMPUTE, EXCHANGE, COMPUTE, EXCHANGE]


def test_half_numbers_nobody_has_added_yet_travel_as_half(bow: CostContext) -> None:
    """[64, 32768]: a tile holds a part of one row, so all 64 rows of a column come from other tiles."""
    half = cost_op(reduce("aten.sum.dim_IntList", (64, 1 << 15), [0], torch.float16), bow).steps
    assert [step.kind for step in half] == [EXCHANGE, COMPUTE, EXCHANGE]
    assert half[0].cycles == (64 - 1) * 24 * 2 / 4  # 24 sums a tile
    assert half[2].name == "reduce: results"  # to where the result lies: 64 halves a tile


def test_a_sum_of_one_number_is_still_a_copy(bow: CostContext) -> None:
    (step,) = cost_op(reduce("aten.sum.default", (1,), None), bow).steps
    assert step.cycles > 0


def test_argmax_takes_three_cycles_an_element(one_tile: CostContext) -> None:
    site = OpSite("aten.argmax.default", (Operand((600,), torch.float32), 0), {}, (Operand((), torch.int64),))
    assert cost_op(site, one_tile).steps[0].cycles == 6 * (20 + 3 * 100)


def test_a_deviation_costs_one_root_more_than_a_variance(bow: CostContext) -> None:
    operand, result = Operand((64, 4096), torch.float32), Operand((64,), torch.float32)
    variance = cost_op(OpSite("aten.var.correction", (operand, [1]), {"correction": 1}, (result,)), bow)
    deviation = cost_op(OpSite("aten.std.correction", (operand, [1]), {"correction": 1}, (result,)), bow)
    assert len(deviation.steps) == len(variance.steps) + 1
    roots = 3 * 10  # 32 roots a tile: ceil(32 / 12) loops of 10
    assert deviation.cycles - variance.cycles == 82 + 20 + 6 * (17 + roots)


def test_two_tensors_are_compared_and_one_is_reduced_by_max(bow: CostContext) -> None:
    operand = Operand((128, 128), torch.float32)
    pair = OpSite("aten.max.other", (operand, operand), {}, (operand,))
    alone = OpSite("aten.max.default", (operand,), {}, (Operand((), torch.float32),))
    assert cost_op(pair, bow).family is Family.ELEMENTWISE
    assert cost_op(alone, bow).family is Family.REDUCTION


def test_sorting_repeats_compare_and_swap(bow: CostContext) -> None:
    operand = Operand((1472, 64), torch.float32)
    site = OpSite("aten.sort.default", (operand, 1, False), {}, (operand, Operand((1472, 64), torch.int64)))
    assert sum(step.repeats for step in cost_op(site, bow).steps) == 6 * 7 // 2  # log2(64) = 6, all on the tile


def test_the_k_largest_need_fewer_rounds_than_a_sort(bow: CostContext) -> None:
    operand = Operand((8, 1 << 14), torch.float32)
    few = OpSite("aten.topk.default", (operand, 4), {}, (Operand((8, 4), torch.float32),))
    all_of_them = OpSite("aten.sort.default", (operand, 1, False), {}, (operand,))
    assert cost_op(few, bow).cycles < cost_op(all_of_them, bow).cycles
