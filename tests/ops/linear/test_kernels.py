"""On-tile formulas, with their arithmetic."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from openipu.errors import PlanError
from openipu.ops.linear.figures import read_figures
from openipu.ops.linear.kernels import (
    amp_kernel_cycles,
    amp_pointwise_cycles,
    cast_cycles,
    multiply_accumulate_cycles,
)


def one(value):
    return np.array([value], dtype=np.int64)


def test_a_coefficient_block_of_sixteen_units_takes_64_cycles_to_load(on_bow):
    assert read_figures(on_bow, half=True).coefficient_load_cycles == 16 * 32 / 8


def test_peak_rates_are_the_published_ones(on_bow):
    seconds_per_cycle = 1 / on_bow.target.clock_hz
    assert read_figures(on_bow, half=True).peak_flops_per_cycle == 128 * 1472
    assert read_figures(on_bow, half=False).peak_flops_per_cycle / seconds_per_cycle == pytest.approx(87e12, rel=0.01)


def test_one_block_on_64_rows_adds_up(on_bow):
    # 64 rows on 6 workers: 11 for the slowest. A worker that zeroes: 37 + 4 (11 - 3) - 7 = 62.
    expected = 50 + 6 * 7 + 13 + 11 + 18 + 7 + 64 + 6 * 62
    cycles = amp_pointwise_cycles(one(64), one(1), one(1), one(1), read_figures(on_bow, half=True))
    assert cycles[0] == expected == 577


def test_a_second_input_block_accumulates(on_bow):
    figures = read_figures(on_bow, half=True)
    first = amp_pointwise_cycles(one(64), one(1), one(1), one(1), figures)[0]
    second = amp_pointwise_cycles(one(64), one(2), one(1), one(1), figures)[0]
    # Outer loops 15 + 19 + 6, the load, 11 rows that accumulate: 38 + 4 (11 - 3) - 7 = 63, and 3 a worker of state.
    assert second - first == 15 + 19 + 6 + 64 + 6 * 63 + 6 * 3


def test_many_rows_cost_four_cycles_each_in_half_and_eight_in_float(on_bow):
    for half, cycles_per_row in ((True, 4), (False, 8 + 8)):  # float: the first block also zeroes, 8 a row
        figures = read_figures(on_bow, half=half)
        few, many = (amp_pointwise_cycles(one(n), one(1), one(1), one(1), figures)[0] for n in (6000, 12000))
        assert many - few == 6000 * cycles_per_row


def test_half_partials_on_eight_units_take_the_slower_path(on_mk1):
    context = dataclasses.replace(on_mk1, half_partials=True)
    # 6 workers, 3 rows each: 41 and zeroing 2 + 2 x 3; no state is kept. Workers are even, so the fastest gives + 14.
    expected = 50 + 13 + 11 + 18 + 7 + 32 + 6 * (41 + 8) + 14
    cycles = amp_pointwise_cycles(one(18), one(1), one(1), one(1), read_figures(context, half=True))
    assert cycles[0] == expected


def test_a_kernel_tap_on_six_full_rows_adds_up(on_bow):
    # 6 rows of 8 points, one row a worker: 18 + (3 + 34 + 4 (8 - 3) - 9) = 66; all alike, so + 9.
    tap = 12 + 64 + 15 + 3 + 6 * 66 + 9
    zeroing = 6 * (48 * 16 / 6 / 4 + 5)  # 16 channels of 48 points, 4 halves a store
    expected = 109 + 54 + 6 * 10 + 23 + 16 + 14 + 14 + 14 + tap + zeroing
    cycles = amp_kernel_cycles(
        field_rows=one(6),
        field_width=one(8),
        taps_high=one(1),
        taps_wide=1,
        in_blocks=one(1),
        out_blocks=one(1),
        groups=one(1),
        result_points=one(48),
        folded_rows=1,
        figures=read_figures(on_bow, half=True),
    )
    assert cycles[0] == expected


def test_a_dot_product_takes_a_step_for_each_vector_of_four_halves(on_bow):
    def price(channels):
        return multiply_accumulate_cycles(
            field_rows=one(1),
            field_width=one(6),
            taps_high=one(1),
            taps_wide=1,
            in_blocks=one(1),
            channels_per_block=channels,
            out_channels=one(1),
            groups=one(1),
            figures=read_figures(on_bow, half=True),
        )[0]

    # One point a worker: 16 + 19 + 7 + (6 + 8 / 4) and 16 to start; the supervisor 65 + 54 + 23 + 25.
    assert price(8) == 65 + 54 + 23 + 25 + 6 * (16 + 19 + 7 + (6 + 2) + 16)
    assert price(16) - price(8) == 6 * 2
    assert price(3) > price(4)  # odd channels are loaded one by one


def test_a_cast_stores_two_floats_a_cycle():
    assert cast_cycles(one(120), 6)[0] == 6 * (20 / 2 + 26)


def test_a_machine_without_free_tiles_or_coefficient_loads_is_refused(on_bow):
    with pytest.raises(PlanError, match="Reserve fewer tiles"):
        read_figures(dataclasses.replace(on_bow, tiles=0), half=True, name="fc1")
    for field in ("amp_coefficient_load_bytes_per_cycle", "exchange_bytes_per_cycle", "workers_per_tile"):
        broken = dataclasses.replace(on_bow.target, **{field: 0})
        with pytest.raises(PlanError, match=f"{field} = 0 for fc1"):
            read_figures(dataclasses.replace(on_bow, target=broken), half=True, name="fc1")
