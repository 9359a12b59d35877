"""Predictions of micro-benchmarks: the arithmetic behind them, other sizes than published, and published bars."""

from __future__ import annotations

from pathlib import Path

import pytest

from openipu.machine import list_targets, resolve_system
from openipu.validation.figures import (
    FigureRow,
    Prediction,
    Unmodelled,
    predict_row,
    read_rows,
    score_answer,
    summarise_by_topic,
)

FIGURES = Path(__file__).parents[1] / "data" / "published_figures.csv"
MK1 = "C2 Mk1 GC2 1.6GHz"
BOW = "Bow IPU 1.85GHz"


def predict(workload, params, metric, unit, *, system=MK1, ipus=1, sdk=""):
    outcome = predict_row(FigureRow("T-001", "micro", system, ipus, workload, params, metric, unit, sdk=sdk)).outcome
    assert isinstance(outcome, Prediction), outcome
    assert outcome.low <= outcome.value <= outcome.high
    return outcome


def test_tiles_read_as_many_bytes_a_cycle_as_their_loads_are_wide():
    asm = predict("local memory read bandwidth, all tiles", {"method": "asm 128-bit loads"}, "bandwidth", "TB/s")
    assert asm.value == pytest.approx(0.98 * 16 * 1216 * 1.6e9 / 1e12)
    naive = predict("local memory read bandwidth, all tiles", {"method": "C++ naive"}, "bandwidth", "TB/s")
    assert naive.value == pytest.approx(asm.value / 4)


def test_the_smallest_copy_is_a_sync_and_a_way_and_a_word():
    gc2 = list_targets()["gc2"]
    way = 59 + 2 * 18 / 3 + 4 * 15 / 3  # nearest, a third of 18 islands, a third of 15 columns
    copied = predict("tile-to-tile copy, minimum message", {"where": "on-chip"}, "latency", "us")
    assert copied.value == pytest.approx((120 + way + 1) / 1.6e9 * 1e6)
    assert gc2.mean_latency_cycles == way


def test_a_scatter_sends_one_word_a_cycle():
    small, large = (
        predict("scatter from one tile, minimum message", {"dest tiles": tiles}, "latency", "us").value
        for tiles in (100, 1100)
    )
    assert large - small == pytest.approx(1000 / 1.6e9 * 1e6)


def test_each_further_board_is_one_hop_of_a_broadcast():
    system = resolve_system("c2-8")
    four, sixteen = (
        predict("broadcast one tile to all tiles, minimum message", {}, "latency", "us", ipus=ipus).value
        for ipus in (4, 16)
    )
    assert sixteen - four == pytest.approx((8 - 2) * system.ipu_link_hop_seconds * 1e6)


def test_a_board_streams_no_more_than_its_link():
    one, two, three = (
        predict("host-to-IPU streaming", {"ipus": ipus}, "bandwidth", "GB/s", ipus=ipus).value for ipus in (1, 2, 3)
    )
    assert one == pytest.approx(5.86)
    assert two == pytest.approx(6.89)  # not 11.72: both share the card's link
    assert three == pytest.approx(6.89 + 5.86)


def test_a_matmul_row_is_the_plan_of_that_matmul():
    prediction = predict(
        "dense matmul m=k (poplin)", {"m": 768, "k": 512, "n": 96, "dtype": "FP16"}, "throughput", "TFLOPS", system=BOW
    )
    cycles = sum(prediction.terms.values())
    assert prediction.value == pytest.approx(2 * 768 * 512 * 96 / (cycles / 1.85e9) / 1e12)
    assert "AMP 1x1" in prediction.terms
    assert prediction.fits


def test_a_convolution_of_other_sizes_is_planned_and_judged():
    params = {"batch": 3, "kernel": 5, "field": 20, "cin": 32, "cout": 48, "stride": 1, "groups": 2}
    rate = predict("conv forward Own layer", params, "throughput", "TFLOPS", sdk="1.0.49")
    fits = predict("conv forward Own layer", params, "fits in memory", "bool", sdk="1.0.49")
    assert rate.value > 0
    assert "order results of groups" in rate.terms
    assert fits.value == 1.0


def test_a_convolution_that_cannot_fit_is_said_not_to():
    params = {"batch": 512, "kernel": 3, "field": 224, "cin": 64, "cout": 64}
    assert predict("conv forward Huge", params, "fits in memory", "bool").value == 0.0


def test_more_operands_on_a_tile_take_a_cycle_each_on_mk1():
    small, large = (
        predict(f"sum-reduction, {count} operands all on one tile", {}, "latency", "us").value
        for count in (1200, 13200)
    )
    assert large - small == pytest.approx(12000 / 1.6e9 * 1e6, rel=0.02)


def test_sparser_weights_are_faster_and_a_pattern_known_before_is_too():
    def speed_up(**changes):
        params = {"m": 1024, "k": 1024, "n": 1024, "density": "1/8", "block": 16, "dtype": "FP16", **changes}
        return predict("block-sparse matmul, speed-up over dense", params, "speed-up", "x", system=BOW).value

    assert speed_up(density="1/32") > speed_up()
    assert speed_up(mode="static") > speed_up(mode="dynamic")
    assert speed_up(block=16) > speed_up(block=1)


@pytest.mark.parametrize(
    ("workload", "params", "metric", "reason"),
    [
        ("quantum annealing", {}, "latency", "no predictor knows"),
        ("D2Q9 lattice Boltzmann", {}, "fraction of roofline", "does not say grid"),
        ("matvec 10x10 fp32", {}, "tile-average sync", "wait for the host"),
        ("dense matmul m=k (poplin)", {"m": 64, "k": 64}, "throughput", "the parameter 'n' must be a number"),
        (
            "dense matmul m=k",
            {"m": 8, "k": 8, "n": 8, "dtype": "int4"},
            "throughput",
            "number format 'int4' is unknown",
        ),
        ("conv forward X", {"cin": 6, "cout": 8, "groups": 4, "field": 8, "kernel": 3}, "throughput", "do not divide"),
        ("block-sparse matmul", {"m": 8, "k": 8, "density": "thin"}, "speed-up", "must be a number or a fraction"),
        ("block-sparse matmul", {"m": 8, "k": 8, "n": 8, "density": 0}, "speed-up", "above 0 and up to 1"),
    ],
)
def test_what_cannot_be_modelled_says_why(workload, params, metric, reason):
    unit = "%" if "fraction" in metric else "us"
    outcome = predict_row(FigureRow("T-001", "micro", MK1, 1, workload, params, metric, unit)).outcome
    assert isinstance(outcome, Unmodelled)
    assert reason in outcome.reason


def test_an_unknown_system_makes_a_row_unmodelled():
    row = FigureRow("T-001", "micro", "H100 SXM", 1, "tile-to-tile copy, minimum message", {}, "latency", "us")
    outcome = predict_row(row).outcome
    assert isinstance(outcome, Unmodelled)
    assert "no system of the catalog is called 'H100 SXM'" in outcome.reason


@pytest.fixture(scope="module")
def published():
    """Every micro-benchmark but the Mk1 convolutions, which have a test of their own in tests/ops/linear."""
    rows = [row for row in read_rows(FIGURES) if row.kind == "micro" and not row.workload.startswith("conv forward")]
    scores = [score_answer(predict_row(row)) for row in rows]
    return {summary.name: summary for summary in summarise_by_topic(scores)}


def test_published_on_tile_kernels_and_matmuls_stay_within_their_goals(published):
    for name in ("on-tile kernels", "dense matmul", "exchange, links, host and memory"):
        summary = published[name]
        assert summary.modelled == summary.rows, name
        assert summary.median_error <= summary.topic.median_goal, name
        assert summary.high_error <= (summary.topic.high_goal or 0.15), name


def test_nine_of_ten_published_values_lie_in_their_range(published):
    scored = [summary for summary in published.values() if summary.scored]
    inside = sum(summary.in_range * summary.scored for summary in scored)
    assert inside / sum(summary.scored for summary in scored) >= 0.9


def test_predictions_depend_on_neither_id_nor_value():
    row = next(row for row in read_rows(FIGURES) if row.workload.startswith("all-to-all"))
    other = FigureRow("X-9", row.kind, row.system, row.ipus, row.workload, row.params, row.metric, row.unit, 1e9)
    assert predict_row(row).outcome == predict_row(other).outcome
