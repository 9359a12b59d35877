"""Sparse products: how much faster than the dense one.

In: rows with sizes, density, block and mode. Out: the ratio of two plans, each at its best batch size.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch

from openipu.errors import FiguresError
from openipu.ops.cost import CostContext
from openipu.ops.linear import cost_matmul
from openipu.ops.phases import total_cycles
from openipu.ops.rules.sparse import cost_sparse_matmul
from openipu.validation.figures import confidence
from openipu.validation.figures.micro.reading import find_bench, read_format, speaks_of
from openipu.validation.figures.outcome import Outcome, Prediction, Predictor
from openipu.validation.figures.rows import FigureRow

_BATCHES = tuple(2**power for power in range(8, 15))


def predict_speed_up(row: FigureRow) -> Outcome:
    """Rate of the sparse product over that of the dense one, counted in products that matter."""
    bench = find_bench(row)
    half = read_format(row) is torch.float16
    columns, inner = row.read_size("m"), row.read_size("k")
    context = CostContext(bench.system.target, bench.tiles, half_partials=half)
    density = _read_density(row)
    dense_rate = sparse_rate = 0.0
    for rows in [row.read_size("n")] if "n" in row.params else _BATCHES:
        sizes: dict[str, Any] = {"rows": rows, "inner": inner, "columns": columns, "half": half, "context": context}
        dense = total_cycles(cost_matmul(batches=1, **sizes), context.target)
        sparse = total_cycles(
            cost_sparse_matmul(
                **sizes,
                density=density,
                block=row.read_size("block", 1),
                dynamic=row.params.get("mode") == "dynamic",
            ),
            context.target,
        )
        dense_rate, sparse_rate = max(dense_rate, rows / dense), max(sparse_rate, rows / sparse)
    return Prediction.around(sparse_rate / dense_rate, confidence.SPARSE, "plans of a dense and a sparse product")


def _read_density(row: FigureRow) -> float:
    try:
        return float(Fraction(str(row.params["density"])))
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise FiguresError(
            f"Row {row.id}: the parameter 'density' must be a number or a fraction like 1/16."
        ) from error


SPARSE_PREDICTORS = (Predictor("sparse product", speaks_of("sparse matmul"), predict_speed_up),)
