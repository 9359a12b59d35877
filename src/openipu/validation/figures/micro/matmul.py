"""Matrix products and convolutions: each row becomes a program of one op, and the plan answers.

In: rows with sizes. Out: throughput, whether it fits, the best size, the largest size that fits.
"""

from __future__ import annotations

from typing import Any

import torch

from openipu.errors import FiguresError
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.programs import MeasuredOp, plan_convolution, plan_matmul, sums_in_half
from openipu.validation.figures.micro.reading import read_format, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor, Unmodelled
from openipu.validation.figures.rows import FigureRow
from openipu.validation.figures.systems import find_system

_SIZE_STEP = 128  # published sizes of square products are multiples of this
_LARGEST_SIZE = 8192
_MISSES = 4


def predict_matmul(row: FigureRow) -> Outcome:
    """A layer of m x k weights for n samples."""
    m, k, n = row.read_size("m"), row.read_size("k"), row.read_size("n")
    measured = _plan(row, n, k, m, read_format(row))
    return _answer(row, measured, 2 * m * k * n, confidence.DENSE_MATMUL, "plan of aten.mm")


def predict_best_square(row: FigureRow) -> Outcome:
    """The best rate over all sizes that fit."""
    dtype = read_format(row)
    target = find_system(row).target
    best, best_size = 0.0, 0
    for size, measured in _walk_sizes(row, dtype):
        rate = 2 * size**3 / target.seconds(measured.cycles)
        if measured.fits and rate > best:
            best, best_size = rate, size
    if not best:
        return Unmodelled("no square product fits this system")
    terms = {"size": float(best_size)}
    return Prediction.around(row.from_si(best), confidence.DENSE_MATMUL, "plans of aten.mm over sizes", terms=terms)


def predict_largest_square(row: FigureRow) -> Outcome:
    """The largest multiple of 128 that fits."""
    fitting = [size for size, measured in _walk_sizes(row, read_format(row)) if measured.fits]
    if not fitting:
        return Unmodelled("no square product fits this system")
    return Prediction.around(max(fitting), confidence.LARGEST_SIZE, "fit of plans of aten.mm over sizes")


def _walk_sizes(row: FigureRow, dtype: torch.dtype) -> list[tuple[int, MeasuredOp]]:
    """Sizes in steps. A larger one may fit where a smaller does not, so several misses in a row end the walk."""
    found: list[tuple[int, MeasuredOp]] = []
    misses = 0
    for size in range(_SIZE_STEP, _LARGEST_SIZE + 1, _SIZE_STEP):
        found.append((size, _plan(row, size, size, size, dtype)))
        misses = 0 if found[-1][1].fits else misses + 1
        if misses == _MISSES:
            break
    return found


def _plan(row: FigureRow, rows: int, inner: int, columns: int, dtype: torch.dtype) -> MeasuredOp:
    system = find_system(row)
    proportion = float(row.read_number("availableMemoryProportion", 0.6))
    half = dtype is torch.float16 and sums_in_half(row.sdk, system.target)
    return plan_matmul(rows, inner, columns, dtype, system.name, half, proportion)


def predict_convolution(row: FigureRow) -> Outcome:
    """A forward convolution, its throughput or whether it fits."""
    sizes = read_convolution(row)
    if sizes["in_channels"] // sizes["groups"] < 8:
        spread = confidence.NARROW_CONVOLUTION
    else:
        spread = confidence.DENSE_CONVOLUTION if sizes["groups"] == 1 else confidence.GROUPED_CONVOLUTION
    flops = count_convolution_flops(sizes)
    return _answer(row, plan_row_convolution(row), flops, spread, "plan of aten.convolution")


def plan_row_convolution(row: FigureRow) -> MeasuredOp:
    """The plan of a row's convolution."""
    system = find_system(row)
    half = sums_in_half(row.sdk, system.target)
    sizes = read_convolution(row)
    return plan_convolution(**sizes, dtype=read_format(row), system_name=system.name, half_partials=half)


def read_convolution(row: FigureRow) -> dict[str, Any]:
    """Sizes of a square convolution."""
    groups, in_channels, out_channels = row.read_size("groups", 1), row.read_size("cin"), row.read_size("cout")
    if in_channels % groups or out_channels % groups:
        raise FiguresError(f"Row {row.id}: {groups} groups do not divide {in_channels} and {out_channels} channels.")
    return {
        "batch": row.read_size("batch", 1),
        "in_channels": in_channels,
        "out_channels": out_channels,
        "field_size": row.read_size("field"),
        "kernel": row.read_size("kernel"),
        "stride": row.read_size("stride", 1),
        "groups": groups,
    }


def count_convolution_flops(sizes: dict[str, Any]) -> int:
    """Two for each multiply-accumulate."""
    kernel, stride = sizes["kernel"], sizes["stride"]
    size = (sizes["field_size"] + 2 * (kernel // 2) - kernel) // stride + 1
    products = sizes["batch"] * size**2 * kernel**2 * sizes["in_channels"] // sizes["groups"] * sizes["out_channels"]
    return 2 * int(products)


def _answer(row: FigureRow, measured: MeasuredOp, flops: int, spread: float, basis: str) -> Outcome:
    if row.asks_fit:
        terms = {"bytes on the fullest tile": float(measured.peak_bytes)}
        return Prediction.of_fit(measured.fits, basis, probability=measured.fit_probability, terms=terms)
    seconds = find_system(row).target.seconds(measured.cycles)
    return Prediction.around(
        row.from_si(flops / seconds),
        spread,
        basis,
        fits=measured.fits,
        fit_probability=measured.fit_probability,
        terms=measured.steps,
    )


MATMUL_PREDICTORS = (
    Predictor("convolution", speaks_of("conv forward"), predict_convolution),
    Predictor("best square product", speaks_of("gemm square", "best"), predict_best_square),
    Predictor("largest square product", speaks_of("largest square gemm"), predict_largest_square),
    Predictor("dense product", speaks_of("dense matmul"), predict_matmul),
)
