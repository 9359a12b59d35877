"""What a product holds besides its operands and its result."""

from __future__ import annotations

import pytest

from openipu.ops.linear import cost_matmul
from openipu.ops.linear.memory import scratch_bytes


def hold(**changes):
    sizes = {"input_bytes": 100.0, "weight_bytes": 40.0, "partial_bytes": 60.0, "reduction_buffer_bytes": 0.0}
    rules = {"inputs_lie_ready": False, "weights_lie_ready": False, "partials_are_result": False}
    bound = {"bound_bytes": 100.0 + 40.0 + 60.0}
    return scratch_bytes(**{**sizes, **rules, **bound, **changes})


def test_operands_of_which_a_part_arrives_are_held_in_full():
    assert hold() == 100 + 40 + 60


@pytest.mark.parametrize(
    ("rule", "left_out"), [("inputs_lie_ready", 100), ("weights_lie_ready", 40), ("partials_are_result", 60)]
)
def test_what_is_worked_on_where_it_lies_is_a_variable_and_no_scratch(rule, left_out):
    assert hold(**{rule: True}) == 200 - left_out


def test_summing_takes_over_where_its_buffer_is_larger_than_the_operands():
    """Partials and the buffer, 60 + 200; the rest of the bound, 10 for an accumulator, lives throughout."""
    assert hold(reduction_buffer_bytes=200.0, bound_bytes=60.0 + 200.0 + 10.0) == 60 + 200 + 10


def test_a_loop_over_output_channels_cuts_weights_and_copies_results_but_not_inputs(on_bow):
    """Activations that another op made come into the scratch that the plan has for them: none is counted twice."""
    cost = cost_matmul(batches=1, rows=16384, inner=3072, columns=768, half=True, context=on_bow)
    plan, splits = cost.plan, cost.plan["splits"]
    assert plan["serial_splits"]["out_channels"] > 1
    assert splits["out_channels"] > 1  # so a part of the inputs arrives
    assert cost.scratch_bytes_per_tile == plan["temporary_bytes"]
    assert [entry.room_bytes for entry in cost.laid_out] == [0.0, 0.0]
    assert all(entry.bytes_on_tile > 0 for entry in cost.laid_out)


def test_inputs_that_were_to_be_read_in_place_need_room_when_they_have_to_come(on_bow):
    cost = cost_matmul(batches=1, rows=1472 * 64, inner=64, columns=16, half=True, context=on_bow)
    assert cost.plan["splits"]["out_channels"] == 1
    left = next(entry for entry in cost.laid_out if entry.operand == 0)
    assert left.room_bytes == left.bytes_on_tile > 0
    operands = cost.plan["temporary_bytes"] - cost.scratch_bytes_per_tile
    assert operands >= left.bytes_on_tile  # and are no scratch otherwise


def test_products_of_float8_leave_their_halves_as_the_result(on_bow):
    from openipu.machine import resolve_system
    from openipu.ops.cost import CostContext

    target = resolve_system("c600").target
    context = CostContext(target, target.tiles)
    cost = cost_matmul(batches=1, rows=17280, inner=768, columns=3072, half=True, float8=True, context=context)
    splits = cost.plan["splits"]
    assert splits["in_channels"] == splits["kernel"] == 1  # nobody sums the partials
    rows, columns = -(-17280 // splits["width"]), -(-192 // splits["out_channels"]) * 16
    assert cost.plan["temporary_bytes"] - cost.scratch_bytes_per_tile >= rows * columns * 2
