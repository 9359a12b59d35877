"""Ratios are of neighbours in time; limits are arithmetic."""

import pytest
from bench.ratios import compare, find_geometric_mean, find_limit_seconds, measure_growth, summarize


def test_a_slow_minute_that_hits_both_changes_no_ratio():
    eager = [2.0, 2.0, 20.0, 2.0]
    openipu = [1.0, 1.0, 10.0, 1.0]
    spread = compare(eager, openipu)
    assert (spread.lower, spread.median, spread.upper, spread.rounds) == (2.0, 2.0, 2.0, 4)


def test_quartiles_lie_around_the_median():
    spread = summarize([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (spread.lower, spread.median, spread.upper) == (2.0, 3.0, 4.0)


def test_a_round_that_one_sat_out_does_not_count():
    spread = compare([30.0, None, 10.0], [1.0, 5.0, 1.0])
    assert (spread.median, spread.rounds) == (20.0, 2)


def test_nothing_measured_is_no_figure():
    assert summarize([]) is None
    assert compare([None], [1.0]) is None
    assert find_geometric_mean([None]) is None


def test_rounds_of_different_runs_are_not_compared():
    with pytest.raises(ValueError, match="shorter"):
        compare([1.0, 1.0], [1.0])


def test_a_geometric_mean_treats_twice_and_half_alike():
    assert find_geometric_mean([2.0, 0.5, None]) == pytest.approx(1.0)
    assert find_geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_the_limit_is_products_at_the_matmul_rate_plus_weights_at_the_copy_bandwidth():
    # 300 GFLOP at 150 GFLOP/s are 2 s; 4 GB at 8 GB/s are 0.5 s.
    assert find_limit_seconds(300e9, 4e9, 150e9, 8e9) == pytest.approx(2.5)


def test_growth_is_the_slope_after_the_settling_steps():
    steps = [100, 200, 300, 400]
    assert measure_growth(steps, [0, 5000, 5100, 5200], after=200) == pytest.approx(1.0)
    assert measure_growth(steps, [9000, 5000, 5000, 5000], after=200) == pytest.approx(0.0)


def test_growth_of_a_single_reading_is_refused():
    with pytest.raises(ValueError, match="two readings"):
        measure_growth([100], [1], after=100)
