"""Whole plans: steps, memory bounds, odd sizes, other machines."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from openipu.errors import PlanError
from openipu.machine import Provenance
from openipu.ops.cost import Family, Placement, StepKind
from openipu.ops.linear import (
    Convolution,
    cost_convolution,
    cost_matmul,
    find_frontier,
    input_gradient,
    search,
    splits,
    weight_gradient,
)
from openipu.ops.linear.figures import read_figures
from openipu.ops.linear.shapes import from_matmul
from openipu.ops.phases import count_exchange_phases, total_cycles


def matmul(context, rows, inner, columns, *, batches=1, half=True):
    return cost_matmul(batches=batches, rows=rows, inner=inner, columns=columns, half=half, context=context)


PROBLEMS = [
    Convolution(1, 4, 56, 56, 3, 3, 64, 64),
    Convolution(1, 4, 112, 112, 7, 7, 3, 64, 2, 2),
    Convolution(1, 2, 28, 28, 1, 1, 256, 512, 2, 2),
    Convolution(32, 2, 28, 28, 3, 3, 8, 8, half=False),
    Convolution(96, 2, 28, 28, 3, 3, 1, 1),
    Convolution(1, 2, 1, 3000, 1, 3, 80, 768),
    input_gradient(Convolution(1, 2, 14, 14, 16, 16, 3, 768, 16, 16), in_height=224, in_width=224),
    weight_gradient(Convolution(1, 4, 28, 28, 3, 3, 128, 128, 2, 2)),
    from_matmul(batches=1, rows=4096, inner=4096, columns=4096, half=True),
    from_matmul(batches=12, rows=128, inner=64, columns=128, half=False),
    from_matmul(batches=7, rows=101, inner=103, columns=107, half=True),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_steps_and_launches_add_up_to_what_the_plan_was_chosen_by(problem, on_bow):
    cost = cost_convolution(problem, on_bow)
    assert total_cycles(cost, on_bow.target) == pytest.approx(cost.plan["cycles_with_launches"])
    assert cost.flops == pytest.approx(problem.flops, rel=1e-6)
    assert 0 < cost.scratch_bytes_per_tile <= cost.plan["temporary_bytes"]
    assert cost.placement is Placement.PLANNED
    assert 1 <= cost.result_tiles <= cost.plan["tiles"] <= on_bow.tiles
    assert 0 < cost.plan["efficiency"] < cost.plan["amp_utilisation"] <= 1


def test_a_launch_is_paid_for_each_exchange_phase_of_each_pass(on_bow):
    cost = matmul(dataclasses.replace(on_bow, available_memory_proportion=0.2), 4096, 4096, 4096)
    passes = cost.plan["serial_splits"]["in_channels"] * cost.plan["serial_splits"]["out_channels"]
    stages = sum(step.name.startswith("reduce stage") for step in cost.steps)
    rearranged = sum(step.name.startswith("gather") for step in cost.steps)
    assert passes > 1
    assert count_exchange_phases(cost) == passes * (1 + stages) + rearranged
    launches = count_exchange_phases(cost) * on_bow.target.phase_launch_cycles
    assert total_cycles(cost, on_bow.target) == cost.cycles + launches


def test_every_step_says_what_it_is(on_bow):
    cost = matmul(dataclasses.replace(on_bow, available_memory_proportion=0.2), 4096, 4096, 4096)
    assert cost.family is Family.MATMUL
    for step in cost.steps:
        assert step.kind in (StepKind.EXCHANGE, StepKind.COMPUTE)
        assert step.name
        assert bool(step.vertex) == (step.kind is StepKind.COMPUTE)
        assert step.cycles > 0
        assert step.messages_per_tile >= 1
        if step.kind is StepKind.EXCHANGE:
            # Shared buses aside, no tile receives faster than its rate.
            received = step.moved_bytes / step.tiles
            assert received <= step.cycles * 2 * on_bow.target.exchange_bytes_per_cycle * 1.001
    assert cost_convolution(PROBLEMS[0], on_bow).family is Family.CONVOLUTION


def test_a_small_dense_layer_is_one_exchange_one_multiply_and_a_reduction(on_bow):
    cost = matmul(on_bow, 32, 1024, 1024)
    assert [step.name for step in cost.steps] == [
        "broadcast inputs and weights",
        "AMP 1x1",
        "exchange partials, stage 1",
        "reduce stage 1",
    ]


def test_a_plan_says_what_it_takes_to_lie_on_the_tile_from_the_start(on_bow):
    cost = matmul(on_bow, 32, 1024, 1024)
    splits = cost.plan["splits"]
    field_tiles = splits["batch"] * splits["height"] * splits["width"]
    # Ceilings by dimension, channels in blocks of 16; what several tiles share is spread over them.
    rows = -(-32 // splits["width"])
    inner = -(-64 // splits["in_channels"]) * 16
    columns = -(-64 // splits["out_channels"]) * 16
    left, right = rows * inner * 2 / splits["out_channels"], inner * columns * 2 / field_tiles
    assert [(entry.operand, entry.bytes_on_tile) for entry in cost.laid_out] == [(0, left), (1, right)]


def test_operands_that_are_rearranged_anyway_are_not_brought_twice(on_bow):
    padded = matmul(on_bow, 4096, 1000, 1024)  # 1,000 is not a multiple of 16: the left operand is filled up
    assert [entry.operand for entry in padded.laid_out] == [1]


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[8], PROBLEMS[10]], ids=str)
def test_each_next_plan_of_the_frontier_is_slower_and_smaller(problem, on_bow):
    frontier = find_frontier(problem, read_figures(on_bow, half=problem.half))
    for faster, smaller in itertools.pairwise(frontier):
        assert faster.cycles < smaller.cycles
        assert faster.temporary_bytes > smaller.temporary_bytes


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[7], PROBLEMS[8]], ids=str)
def test_less_memory_never_takes_more_of_it_and_never_makes_it_faster(problem, on_bow):
    figures = read_figures(on_bow, half=problem.half)
    least_bytes = find_frontier(problem, figures)[-1].temporary_bytes
    before = None
    for proportion in (1.0, 0.6, 0.4, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01):
        if proportion * figures.tile_memory_bytes < least_bytes:
            break
        cost = cost_convolution(problem, dataclasses.replace(on_bow, available_memory_proportion=proportion))
        assert cost.plan["temporary_bytes"] <= proportion * figures.tile_memory_bytes
        assert cost.plan["memory_bound_doublings"] == 0
        if before is not None:
            assert cost.plan["temporary_bytes"] <= before.plan["temporary_bytes"]
            assert total_cycles(cost, on_bow.target) >= total_cycles(before, on_bow.target)
        before = cost
    assert before is not None


def test_a_bound_that_nothing_meets_is_doubled_until_something_does(on_bow):
    problem = from_matmul(batches=1, rows=4096, inner=4096, columns=4096, half=True)
    figures = read_figures(on_bow, half=True)
    least_bytes = find_frontier(problem, figures)[-1].temporary_bytes
    proportion = 0.9 * least_bytes / figures.tile_memory_bytes
    cost = cost_convolution(problem, dataclasses.replace(on_bow, available_memory_proportion=proportion))
    assert cost.plan["memory_bound_doublings"] == 1
    assert least_bytes <= cost.plan["temporary_bytes"] <= 2 * 0.9 * least_bytes


def test_a_bound_of_nothing_takes_the_smallest_plan(on_bow):
    least = matmul(dataclasses.replace(on_bow, available_memory_proportion=0.0), 512, 512, 512)
    frontier = find_frontier(
        from_matmul(batches=1, rows=512, inner=512, columns=512, half=True), read_figures(on_bow, half=True)
    )
    assert least.plan["temporary_bytes"] == round(frontier[-1].temporary_bytes)
    assert least.plan["memory_bound_doublings"] is None


def test_more_memory_than_a_tile_has_is_no_bound(on_bow):
    cost = matmul(dataclasses.replace(on_bow, available_memory_proportion=8.0), 512, 512, 512)
    assert cost.plan["memory_bound_doublings"] == 0
    assert cost.plan == matmul(on_bow, 512, 512, 512).plan


def test_a_problem_larger_than_the_chip_still_gets_a_plan(on_bow):
    cost = matmul(on_bow, 32768, 32768, 32768, half=False)
    assert cost.plan["memory_bound_doublings"] is None
    assert cost.plan["temporary_bytes"] > on_bow.target.tile_memory_bytes
    assert cost.provenance is Provenance.GUESSED


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 100_000, 1), (1000, 1, 1000), (1, 768, 50_257), (8192, 8192, 8192)])
@pytest.mark.parametrize("half", [True, False])
def test_tiny_thin_and_huge_matmuls_have_plans(sizes, half, on_bow):
    cost = matmul(on_bow, *sizes, half=half)
    assert cost.flops == pytest.approx(2 * sizes[0] * sizes[1] * sizes[2], rel=1e-6)
    floor = cost.flops / read_figures(on_bow, half=half).peak_flops_per_cycle
    assert total_cycles(cost, on_bow.target) > floor
    assert cost.plan["temporary_bytes"] <= 0.6 * on_bow.target.tile_memory_bytes


@pytest.mark.parametrize("sizes", [(0, 5, 5), (5, 5, 0)])
def test_an_empty_result_costs_nothing(sizes, on_bow):
    assert matmul(on_bow, *sizes).steps == ()
    assert matmul(on_bow, 4, 4, 4, batches=0).steps == ()


def test_a_sum_over_nothing_only_writes_zeros(on_bow):
    cost = matmul(on_bow, 1472, 0, 8)
    assert [step.name for step in cost.steps] == ["fill with zeros"]
    assert cost.cycles == 8 * 2 / 8  # one row of 8 halves a tile, 8 bytes a cycle


def test_a_negative_size_names_the_op(on_bow):
    with pytest.raises(PlanError, match=r"fc2 has inner = -3"):
        cost_matmul(batches=1, rows=2, inner=-3, columns=2, half=True, context=on_bow, name="fc2")


def test_larger_problems_take_longer(on_bow):
    cycles = [total_cycles(matmul(on_bow, 256 * scale, 1024, 1024), on_bow.target) for scale in (1, 2, 4, 8)]
    assert cycles == sorted(cycles)
    batches = [
        total_cycles(cost_convolution(Convolution(1, batch, 28, 28, 3, 3, 128, 128), on_bow), on_bow.target)
        for batch in (1, 4, 16, 64)
    ]
    assert batches == sorted(batches)


def test_half_is_faster_than_float_and_half_partials_than_float_partials(on_bow):
    target = on_bow.target
    with_float_partials = dataclasses.replace(on_bow, half_partials=False)
    half = total_cycles(matmul(on_bow, 1024, 1024, 1024), target)
    mixed = total_cycles(matmul(with_float_partials, 1024, 1024, 1024), target)
    single = total_cycles(matmul(on_bow, 1024, 1024, 1024, half=False), target)
    assert half < mixed < single


@pytest.mark.parametrize(
    "change",
    [
        {"phase_launch_cycles": 2000.0},
        {"compute_scale": 2.0},
        {"exchange_bytes_per_cycle": 1.0},
        {"exchange_sharing_tiles": 1},
        {"amp_units_half_half_partials": 8},
        {"amp_coefficient_load_bytes_per_cycle": 4},
        {"tile_memory_bytes": 65536},
        {"workers_per_tile": 12},
    ],
    ids=str,
)
def test_a_machine_of_the_users_own_changes_the_plan(change, on_bow):
    slower = dataclasses.replace(on_bow.target, **change)
    usual = total_cycles(matmul(on_bow, 2048, 2048, 2048), on_bow.target)
    changed = total_cycles(matmul(dataclasses.replace(on_bow, target=slower), 2048, 2048, 2048), slower)
    assert changed > usual


def test_fewer_tiles_take_longer(on_bow):
    halved = dataclasses.replace(on_bow, tiles=736)
    target = on_bow.target
    ratio = total_cycles(matmul(halved, 2048, 2048, 2048), target) / total_cycles(
        matmul(on_bow, 2048, 2048, 2048), target
    )
    assert 1.5 < ratio < 2.5


def test_without_amp_units_the_plain_vector_path_is_used(on_bow):
    plain = dataclasses.replace(on_bow, target=dataclasses.replace(on_bow.target, amp_units_float=0))
    cost = matmul(plain, 1024, 1024, 1024, half=False)
    assert cost.plan["method"] == "HMAC"
    (multiply,) = (step for step in cost.steps if step.flops)
    assert multiply.total_cycles > 1024**3 / 2 / 1472  # two float products a cycle and tile at best
    assert total_cycles(cost, on_bow.target) > total_cycles(matmul(on_bow, 1024, 1024, 1024, half=False), on_bow.target)


def test_what_published_measurements_do_not_support_is_marked_as_a_guess(on_bow, on_mk1):
    assert cost_convolution(PROBLEMS[4], on_bow).provenance is Provenance.GUESSED  # one channel a group
    assert cost_convolution(PROBLEMS[1], on_mk1).provenance is Provenance.GUESSED  # 3 channels on Mk1
    assert cost_convolution(PROBLEMS[1], on_bow).provenance is Provenance.DERIVED
    assert cost_convolution(PROBLEMS[0], on_bow).provenance is Provenance.DERIVED


def test_a_shape_that_was_planned_before_is_not_planned_again(on_bow):
    first = matmul(on_bow, 300, 301, 302)
    misses = find_frontier.cache_info().misses
    assert matmul(on_bow, 300, 301, 302) is first
    matmul(dataclasses.replace(on_bow, available_memory_proportion=0.3), 300, 301, 302)
    assert find_frontier.cache_info().misses == misses


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[7], PROBLEMS[8], PROBLEMS[10]], ids=str)
def test_the_capped_search_finds_what_a_full_search_finds(problem, on_bow, monkeypatch):
    figures = read_figures(on_bow, half=problem.half)
    capped = find_frontier(problem, figures)
    monkeypatch.setattr(search, "CANDIDATE_CAP", 10**9)
    monkeypatch.setattr(search, "SERIAL_CANDIDATE_CAP", 10**9)
    monkeypatch.setattr(splits, "_POINTS_SLACK", 10**9)
    monkeypatch.setattr(splits, "_INPUT_SLACK", 10**9)
    full = find_frontier.__wrapped__(problem, figures)
    for share in (0.6, 0.2, 0.1):
        bound_bytes = share * figures.tile_memory_bytes
        found = min(plan.cycles for plan in capped if plan.temporary_bytes <= bound_bytes)
        best = min(plan.cycles for plan in full if plan.temporary_bytes <= bound_bytes)
        assert best <= found <= 1.03 * best


def test_what_lies_on_its_tile_already_is_no_scratch(on_bow):
    cost = cost_matmul(batches=1, rows=1, inner=8192, columns=8192, half=False, context=on_bow)
    weight_bytes_per_tile = 8192 * 8192 * 4 / 1472
    assert cost.plan["temporary_bytes"] > weight_bytes_per_tile, "the vendor's bound counts weights in full"
    assert cost.scratch_bytes_per_tile < 0.1 * weight_bytes_per_tile, "one row: no weight has to move"


def test_activations_as_coefficients_are_ordered_by_element_where_the_sum_fills_no_vectors(on_bow):
    """Attention over 197 tokens: what a tile holds of the values at 5.15 cycles a byte, and Poplibs' base."""
    odd = matmul(on_bow, 197, 197, 64, batches=96)
    (step,) = [step for step in odd.steps if step.name == "order coefficients"]
    held = (step.cycles - 587) / 5.15
    assert held == pytest.approx(round(held / 2) * 2)
    assert 0 < held <= 208 * 64 * 2  # one head's values, filled up to whole blocks
    for even in (
        matmul(on_bow, 196, 196, 64, batches=96),
        matmul(on_bow, 197, 64, 197, batches=96),
        matmul(on_bow, 197, 197, 64),
    ):
        assert "order coefficients" not in [step.name for step in even.steps]
