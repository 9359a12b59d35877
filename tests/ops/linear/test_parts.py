"""Shapes, pieces, reductions and serial loops, each by itself."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from openipu.errors import PlanError
from openipu.ops.linear import Convolution, input_gradient, weight_gradient
from openipu.ops.linear.candidates import cut_pieces, operand_exchange_cycles
from openipu.ops.linear.figures import read_figures
from openipu.ops.linear.memory import temporary_bytes
from openipu.ops.linear.reduction import reduce_partials, split_depth
from openipu.ops.linear.serial import price_serial_loop
from openipu.ops.linear.shapes import count_input_points, from_matmul
from openipu.ops.linear.splits import enumerate_splits, list_counts
from openipu.ops.linear.variants import Expansion, Method, list_variants

RESNET_3X3 = Convolution(1, 4, 28, 28, 3, 3, 128, 256, 2, 2)


def one(value):
    return np.array([value], dtype=np.int64)


def column(*counts):
    return np.array(counts, dtype=np.int64)[:, None]


@pytest.mark.parametrize(
    ("outputs", "taps", "stride", "dilation", "inserted", "points"),
    [
        (8, 3, 1, 1, 1, 10),  # 8 + halo of 2
        (8, 3, 2, 1, 1, 17),  # 7 x 2 + 3
        (8, 1, 2, 1, 1, 8),  # skipped points are not read
        (4, 3, 1, 2, 1, 8),  # 3 + 2 x 2 + 1
        (8, 3, 1, 1, 2, 5),  # 10 points of which every second is an inserted zero
        (0, 3, 1, 1, 1, 0),
    ],
)
def test_input_points_of_a_piece(outputs, taps, stride, dilation, inserted, points):
    assert count_input_points(outputs, taps, stride, dilation, inserted) == points


def test_a_convolution_and_both_its_gradients_do_the_same_work():
    forward = RESNET_3X3
    assert forward.flops == 2 * 4 * 28 * 28 * 256 * 128 * 9
    assert input_gradient(forward, in_height=56, in_width=56).flops == forward.flops
    assert weight_gradient(forward).flops == forward.flops


def test_gradients_have_the_shapes_of_what_they_are_gradients_of():
    backward = input_gradient(RESNET_3X3, in_height=56, in_width=56)
    assert backward.result_elements == 4 * 56 * 56 * 128
    assert weight_gradient(RESNET_3X3).result_elements == RESNET_3X3.weight_elements == 9 * 128 * 256


@pytest.mark.parametrize(("field", "value"), [("groups", 0), ("batch", -1), ("kernel_width", 0), ("stride_height", 0)])
def test_a_size_that_cannot_be_is_refused_by_name(field, value):
    with pytest.raises(PlanError, match=f"{field} = {value}"):
        dataclasses.replace(RESNET_3X3, **{field: value})


def test_piece_counts_that_give_the_same_piece_are_listed_once():
    assert list_counts(10, 1472).tolist() == [1, 2, 3, 4, 5, 10]  # pieces of 10, 5, 4, 3, 2, 1
    assert list_counts(10, 4).tolist() == [1, 2, 3, 4]
    assert list_counts(1, 1472).tolist() == [1]


def test_no_candidate_uses_more_tiles_than_there_are(on_bow):
    figures = read_figures(on_bow, half=True)
    for variant in list_variants(RESNET_3X3, figures):
        tiles = enumerate_splits(variant, 100).prod(axis=0)
        assert tiles.max() <= 100
        assert tiles.min() == 1


def test_pieces_of_a_matmul_and_what_each_tile_receives(on_bow):
    figures = read_figures(on_bow, half=True)
    variant = list_variants(from_matmul(batches=1, rows=100, inner=64, columns=128, half=True), figures)[0]
    pieces = cut_pieces(variant, column(1, 1, 1, 4, 1, 2, 8))
    assert (pieces.width[0], pieces.in_blocks[0], pieces.out_blocks[0]) == (25, 2, 1)
    assert pieces.input_elements[0] == 25 * 32
    assert pieces.weight_elements[0] == 32 * 16
    # 8 tiles share each input, 7/8 arrives, at twice the rate as pairs share a bus; 4 tiles share each weight.
    assert operand_exchange_cycles(pieces, figures)[0] == 25 * 32 * 2 * 7 / 8 / 8 + 32 * 16 * 2 * 3 / 4 / 4
    odd = cut_pieces(variant, column(1, 1, 1, 4, 1, 2, 1))
    assert operand_exchange_cycles(odd, figures)[0] == 0 + 32 * 128 * 2 * 3 / 4 / 4


@pytest.mark.parametrize(
    ("depth", "stages"), [(1, (1, 1, 1)), (15, (15, 1, 1)), (16, (4, 4, 1)), (64, (8, 8, 1)), (125, (5, 5, 5))]
)
def test_deep_reductions_go_in_even_stages(depth, stages):
    assert tuple(int(stage[0]) for stage in split_depth(one(depth))) == stages


@pytest.mark.parametrize("depth", range(1, 400, 7))
def test_stages_together_cover_the_depth(depth):
    assert np.prod([stage[0] for stage in split_depth(one(depth))]) >= depth


def test_a_reduction_stage_adds_up(on_bow):
    reduction = reduce_partials(one(960), one(4), read_figures(on_bow, half=True))
    # Each tile sums 960 / 4 = 240 results: 30 vectors of 8 accumulators, 5 a worker, 3 x 4 + 7 cycles each.
    assert reduction.cycles[0] == 6 * (32 + (3 * 4 + 7) * 5)
    assert reduction.received_bytes[0] == 3 * 240 * 2
    assert reduction.buffer_bytes[0] == 4 * 240 * 2
    assert reduction.count[0] == 1


def test_float_partials_of_a_half_result_are_cast_when_there_is_nothing_to_sum(on_bow):
    with_float = read_figures(dataclasses.replace(on_bow, half_partials=False), half=True)
    assert reduce_partials(one(120), one(1), with_float).cycles[0] == 6 * (10 + 26)
    assert reduce_partials(one(120), one(1), read_figures(on_bow, half=True)).cycles[0] == 0


def test_temporary_memory_is_the_larger_of_multiplying_and_reducing(on_bow):
    def price(buffer_bytes):
        return temporary_bytes(
            input_elements=one(100),
            weight_elements=one(50),
            partial_elements=one(40),
            reduction_buffer_bytes=np.array([buffer_bytes]),
            accumulator_bytes=8.0,
            transform_bytes=16.0,
            figures=read_figures(on_bow, half=True),
        )[0]

    assert price(0.0) == (100 + 50 + 40) * 2 + 8 + 2 * 16
    assert price(1000.0) == 1000 + 40 * 2 + 8 + 2 * 16


def test_a_serial_loop_over_outputs_slices_weights_and_updates_the_result(on_bow):
    figures = read_figures(on_bow, half=True)
    variant = list_variants(from_matmul(batches=1, rows=1472, inner=1472, columns=1024, half=True), figures)[0]
    loop = price_serial_loop(dataclasses.replace(variant, serial_out=4), figures)
    # Each tile holds 1024 weights and 1024 results: a quarter a pass, 4 halves a vector, 2 cycles a vector.
    assert loop.slice_weights_cycles == loop.update_cycles == 25 + 6 * 63 + 2 * 1024 / 4 / 4
    assert loop.slice_inputs_cycles == loop.accumulator_bytes == 0
    assert price_serial_loop(variant, figures).cycles == 0


def test_few_channels_open_the_other_ways_to_compute(on_bow):
    first_layer = Convolution(1, 4, 112, 112, 7, 7, 3, 64, 2, 2)
    variants = list_variants(first_layer, read_figures(on_bow, half=True))
    assert {variant.expansion for variant in variants} == {Expansion.NONE, Expansion.WIDTH, Expansion.WHOLE}
    assert Method.MULTIPLY_ACCUMULATE in {variant.method for variant in variants}
    assert {(variant.in_block, variant.folded_rows) for variant in variants} >= {(16, 1), (8, 2), (4, 4)}


def test_only_the_other_orientation_of_an_aligned_matmul_pays_for_a_rearrangement(on_bow):
    figures = read_figures(on_bow, half=True)
    plain, swapped = list_variants(from_matmul(batches=1, rows=256, inner=128, columns=512, half=True), figures)
    assert (plain.swapped, plain.transform_copy_cycles) == (False, 0)
    # Both operands, all tiles; blocks of 16 halves are whole 8-byte atoms, at 0.44 cycles a byte.
    assert swapped.transform_bytes == (256 * 128 + 128 * 512) * 2 / 1472
    assert swapped.transform_copy_cycles == 587 + 0.44 * swapped.transform_bytes
