"""Kernels on one tile, without exchange: the AMP vertex, an elementwise vertex, what a local copy takes.

In: rows with sizes on a tile. Out: cycles or rates from the vertex formulas that the planner uses.
"""

from __future__ import annotations

import numpy as np
import torch

from openipu.ops.cost import CostContext
from openipu.ops.kernels import ADD, COPY
from openipu.ops.linear.figures import read_figures
from openipu.ops.linear.kernels import amp_pointwise_cycles
from openipu.ops.steps import count_pass_cycles
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.reading import find_bench, read_format, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor
from openipu.validation.figures.rows import FigureRow

_BLOCK = 16  # the rows' coefficient block, 16 x 16
COUNTER_CYCLES = 45.0  # published with the same timings: reading the cycle counter


def measure_block(rows: int, dtype: torch.dtype, context: CostContext) -> float:
    """`rows` x 16 by 16 x 16 on one tile."""
    half_partials = CostContext(context.target, context.tiles, half_partials=True)
    figures = read_figures(half_partials, half=dtype is torch.float16)
    one = np.ones(1, dtype=np.int64)
    in_blocks, out_blocks = -(-_BLOCK // figures.in_channel_block), max(1, -(-_BLOCK // figures.amp_units))
    return float(amp_pointwise_cycles(rows * one, in_blocks * one, out_blocks * one, one, figures)[0])


def predict_block(row: FigureRow) -> Outcome:
    """Cycles of a call, or the rate of all tiles."""
    bench = find_bench(row)
    rows = row.read_size("N")
    cycles = measure_block(rows, read_format(row), bench.context) * bench.system.target.compute_scale
    basis = "formula of the AMP 1x1 vertex"
    if "cycles" in row.metric:
        return Prediction.around(cycles, confidence.ON_TILE, basis)
    flops = 2 * rows * _BLOCK * _BLOCK * row.read_size("tiles", bench.tiles)
    rate = flops / bench.system.target.seconds(cycles)
    return Prediction.around(row.from_si(rate), confidence.ON_TILE, basis)


def predict_addition(row: FigureRow) -> Outcome:
    """An addition on every tile, timed by the tile's own counter."""
    bench = find_bench(row)
    dtype = torch.float16 if "16" in row.workload else torch.float32
    elements = row.read_size("elements/tile")
    cycles = count_pass_cycles(ADD, elements, dtype, 2, bench.system.target) + COUNTER_CYCLES
    value = cycles if row.unit == "cycles" else row.from_si(bench.system.target.seconds(cycles))
    terms = {"vertex": cycles - COUNTER_CYCLES, "cycle counter": COUNTER_CYCLES}
    return Prediction.around(value, confidence.ON_TILE, "formula of an addition", terms=terms)


def predict_counter(row: FigureRow) -> Outcome:
    """Reading the cycle counter twice."""
    return Prediction.around(COUNTER_CYCLES, confidence.ON_TILE, "constant of the instrumentation")


def predict_local_copy(row: FigureRow) -> Outcome:
    """The smallest copy on one tile: one vertex with hardly anything to do."""
    target = find_bench(row).system.target
    cycles = count_pass_cycles(COPY, 1, torch.float32, 1, target)
    return Prediction.around(row.from_si(target.seconds(cycles)), confidence.USER_VERTEX, "formula of a copy")


KERNEL_PREDICTORS = (
    Predictor("AMP block", speaks_of("on-tile amp"), predict_block),
    Predictor("addition", speaks_of("elementwise add"), predict_addition),
    Predictor("cycle counter", speaks_of("instrumentation"), predict_counter),
    Predictor("local copy", speaks_of("local copy"), predict_local_copy),
)
