"""Published misfits that a larger program contradicts: found from sizes alone."""

from __future__ import annotations

import pytest

from openipu.validation.figures import FigureRow
from openipu.validation.figures.contradiction import find_contradicted

LAYER = {"batch": 16, "field": 28, "kernel": 3, "stride": 1, "cin": 128, "cout": 128, "groups": 1, "dtype": "half"}


def ran(number=1, workload="conv forward A", **sizes):
    return FigureRow(f"R-{number}", "micro", "c2", 1, workload, {**LAYER, **sizes}, "throughput", "TFLOPS", 9.0)


def blank(number=1, workload="conv forward B", **sizes):
    params = {**LAYER, **sizes, "note": "blank in the table"}
    return FigureRow(f"B-{number}", "micro", "c2", 1, workload, params, "fits in memory", "bool", 0.0)


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"batch": 8},
        {"cin": 64, "cout": 32},
        {"kernel": 1},
        {"stride": 2},
        # Images of 13 with one point of padding between them: (28 + 1) // (13 + 1) = 2 along each side, 4 an image.
        {"field": 13, "batch": 64},
    ],
    ids=str,
)
def test_a_layer_that_the_larger_one_can_compute_is_contradicted(sizes):
    assert find_contradicted([ran(), blank(**sizes)]) == {"B-1"}


@pytest.mark.parametrize(
    "sizes",
    [
        {"batch": 17},
        {"cout": 129},
        {"kernel": 5},
        {"field": 14, "batch": 64},  # (28 + 1) // (14 + 1) = 1: only one beside the other's padding
        {"field": 13, "batch": 65},
        {"groups": 2},
        {"dtype": "float"},
    ],
    ids=str,
)
def test_a_layer_that_is_larger_in_anything_is_not(sizes):
    assert not find_contradicted([ran(), blank(**sizes)])


def test_a_larger_stride_skips_results_that_a_smaller_one_needs():
    assert not find_contradicted([ran(stride=2), blank(stride=1)])


def test_what_is_no_convolution_needs_all_else_equal():
    def row(name, batch, metric, value, dtype="fp16"):
        params = {"batch": batch, "dtype": dtype}
        return FigureRow(name, "e2e", "c600", 1, "ResNet-50 inference", params, metric, "x", value)

    rows = [
        row("A-1", 90, "throughput", 5.0),
        row("A-2", 64, "fits in memory", 0.0),
        row("A-3", 96, "fits in memory", 0.0),
        row("A-4", 32, "fits in memory", 0.0, dtype="fp32"),
    ]
    assert find_contradicted(rows) == {"A-2"}


def test_what_waits_for_its_value_contradicts_nothing():
    waiting = FigureRow("W-1", "micro", "c2", 1, "conv forward A", LAYER, "throughput", "TFLOPS")
    assert not find_contradicted([waiting, blank()])
