"""Sums over tiles and over IPUs.

In: rows that say how many operands lie where. Out: predictions by the reduction rule, for the layout that the row
describes. A program of one reduction starts with one launch. Over links, each operand of another IPU arrives as a word.
"""

from __future__ import annotations

import re

import torch

from openipu.errors import FiguresError
from openipu.ops.cost import Family
from openipu.ops.patterns import count_hops, cross_links
from openipu.ops.phases import total_cycles
from openipu.ops.rules.reduction import Reduction, reduce_elements
from openipu.ops.spread import Spread
from openipu.ops.steps import wrap
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.reading import Bench, find_bench, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor
from openipu.validation.figures.rows import FigureRow

_FLOAT_BYTES = 4


def predict_sum(row: FigureRow) -> Outcome:
    """A sum of so many operands: one a tile, all on one tile, or spread over some."""
    bench = find_bench(row)
    operands, tiles = _read_layout(row, bench)
    return _answer(row, row.from_si(_measure_sum(operands, tiles, bench)))


def predict_rate(row: FigureRow) -> Outcome:
    """Bytes of operands a second, with as many operands on every tile."""
    bench = find_bench(row)
    tiles = row.ipus * bench.tiles
    operands = row.read_size("operands/tile") * tiles
    return _answer(row, row.from_si(operands * _FLOAT_BYTES / _measure_sum(operands, tiles, bench)))


def _measure_sum(operands: int, tiles: int, bench: Bench) -> float:
    """Seconds of one sum."""
    target = bench.system.target
    on_chip = min(tiles, bench.tiles)
    each = -(-operands // tiles)
    problem = Reduction((each * on_chip,), (0,), torch.float32)
    spread = Spread(on_chip, each, -(-each * _FLOAT_BYTES // target.vector_bytes))
    reduced = reduce_elements(problem, bench.context, name="sum", spread=spread)
    cost = wrap(Family.REDUCTION, reduced.steps, basis="popops reduction")
    cycles = target.phase_launch_cycles + total_cycles(cost, target)
    seconds = target.seconds(cycles)
    if tiles > bench.tiles:
        ipus = -(-tiles // bench.tiles)
        seconds += target.seconds(tiles - bench.tiles)  # a word a cycle
        seconds += bench.seconds(cross_links(count_hops(ipus, bench.system), bench.system))
    return seconds


def _read_layout(row: FigureRow, bench: Bench) -> tuple[int, int]:
    """Operands and the tiles that hold them."""
    if "one operand per tile" in row.workload:
        tiles = row.read_size("tiles", row.ipus * bench.tiles)
        return tiles, tiles
    found = re.search(r"(\d+) operands (all on one tile|on (\d+) tiles)", row.workload)
    if not found:
        raise FiguresError(f"Row {row.id}: where the operands of {row.workload!r} lie is not said.")
    return int(found.group(1)), int(found.group(3) or 1)


def _answer(row: FigureRow, value: float) -> Outcome:
    return Prediction.around(value, confidence.REDUCTION, "reduction rule")


REDUCTION_PREDICTORS = (
    Predictor("sum", speaks_of("sum-reduction"), predict_sum),
    Predictor("sum rate", speaks_of("reduction bandwidth"), predict_rate),
)
