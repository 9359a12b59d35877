"""The planner against measurements that others published.

Not all of it is a held-out check: the launch and compute scale of the Mk1 target were fitted on convolutions of the
same source; Bow uses that launch as it is. The matmuls and the on-tile timings fitted nothing.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from openipu.ops.linear import Convolution, cost_convolution, cost_matmul
from openipu.ops.linear.figures import read_figures
from openipu.ops.linear.kernels import amp_pointwise_cycles
from openipu.ops.phases import total_cycles

pytestmark = pytest.mark.slow


def one(value):
    return np.array([value], dtype=np.int64)


def on_tile_cycles(rows, context):
    """`rows` x 16 by 16 x 16, half: one coefficient block."""
    figures = read_figures(context, half=True)
    return float(amp_pointwise_cycles(one(rows), one(1), one(1), one(1), figures)[0])


def test_the_on_tile_kernel_matches_every_published_timing_within_two_percent(published, on_bow):
    timings = [row for row in published("AMP-") if row.metric == "cycles per call"]
    assert len(timings) == 17
    for row in timings:
        assert abs(on_tile_cycles(row.params["N"], on_bow) / row.value - 1) < 0.02, row.id


def test_all_tiles_together_reach_the_published_on_tile_throughput(published, on_bow):
    (row,) = (row for row in published("AMP-037") if row.metric == "throughput")
    rows = row.params["N"]
    flops = 2 * rows * 16 * 16 * on_bow.tiles
    tflops = flops / on_bow.target.seconds(on_tile_cycles(rows, on_bow)) / 1e12
    assert abs(tflops / row.value - 1) < 0.01


def log_errors_of_matmuls(rows, context):
    """The weights m x k are the right-hand matrix of a layer with n samples."""
    errors = []
    for row in rows:
        m, k, n = row.params["m"], row.params["k"], row.params["n"]
        half = row.params["dtype"] == "FP16"
        cost = cost_matmul(batches=1, rows=n, inner=k, columns=m, half=half, context=context)
        measured_cycles = 2 * m * k * n / (row.value * 1e12) * context.target.clock_hz
        errors.append(abs(math.log(total_cycles(cost, context.target) / measured_cycles)))
    return np.array(errors)


def test_dense_matmuls_on_bow_are_within_five_percent_in_the_median(published, on_bow):
    rows = published("PSD-")
    errors = log_errors_of_matmuls(rows, on_bow)
    assert len(rows) == 45
    assert np.median(errors) <= 0.05
    assert np.percentile(errors, 90) <= 0.12
    for kind, high in (("FP16", 0.20), ("FP32", 0.10)):  # small half products want a shorter launch than Mk1 has
        picked = np.array([row.params["dtype"] == kind for row in rows])
        assert np.median(errors[picked]) <= 0.06, kind
        assert np.percentile(errors[picked], 90) <= high, kind


def as_convolution(params):
    kernel, groups, stride = params["kernel"], params["groups"], params["stride"]
    size = (params["field"] + 2 * (kernel // 2) - kernel) // stride + 1
    channels = (params["cin"] // groups, params["cout"] // groups)
    return Convolution(groups, params["batch"], size, size, kernel, kernel, *channels, stride, stride, half=True)


def log_errors_of_convolutions(rows, context):
    errors = []
    for row in rows:
        problem = as_convolution(row.params)
        cost = cost_convolution(problem, context)
        measured_cycles = problem.flops / (row.value * 1e12) * context.target.clock_hz
        errors.append(abs(math.log(total_cycles(cost, context.target) / measured_cycles)))
    return np.array(errors)


def test_dense_convolutions_on_mk1_are_within_eight_percent_in_the_median(published, on_mk1):
    measured = [row for row in published("JIACONV-") if row.metric == "throughput"]
    dense = [row for row in measured if row.params["groups"] == 1 and row.params["cin"] > 3]
    assert len(dense) == 152
    errors = log_errors_of_convolutions(dense, on_mk1)
    assert np.median(errors) <= 0.08
    assert np.percentile(errors, 90) <= 0.20


def test_grouped_convolutions_with_enough_channels_stay_within_a_tenth_in_the_median(published, on_mk1):
    measured = [row for row in published("JIACONV-") if row.metric == "throughput"]
    grouped = [row for row in measured if row.params["groups"] > 1 and row.params["cin"] // row.params["groups"] >= 8]
    errors = log_errors_of_convolutions(grouped, on_mk1)
    assert len(grouped) == 46
    assert np.median(errors) <= 0.10
    assert np.percentile(errors, 90) <= 0.20


def test_convolutions_over_few_channels_are_right_within_a_factor_of_two(published, on_mk1):
    measured = [row for row in published("JIACONV-") if row.metric == "throughput"]
    narrow = [row for row in measured if row.params["cin"] // row.params["groups"] < 8]
    errors = log_errors_of_convolutions(narrow, on_mk1)
    assert len(narrow) == 31
    assert np.median(errors) <= 0.45
    assert np.percentile(errors, 90) <= 0.70


def test_the_best_square_float_matmul_on_mk1_reaches_the_published_throughput(published, on_mk1):
    (row,) = published("JIA-070")
    best = 0.0
    for size in range(1024, 2945, 384):
        cost = cost_matmul(batches=1, rows=size, inner=size, columns=size, half=False, context=on_mk1)
        seconds = on_mk1.target.seconds(total_cycles(cost, on_mk1.target))
        best = max(best, 2 * size**3 / seconds / 1e12)
    assert abs(best / row.value - 1) < 0.15
