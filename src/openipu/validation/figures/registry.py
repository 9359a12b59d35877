"""All predictors, and how one is found.

In: a row. Out: its outcome. See `outcome` for how to plug in a predictor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from openipu.errors import OpenIpuError
from openipu.validation.figures.micro import MICRO_PREDICTORS
from openipu.validation.figures.outcome import Outcome, Predictor, Unmodelled
from openipu.validation.figures.rows import FigureRow


def _predict_end_to_end(row: FigureRow) -> Outcome:
    """Whole models: their builders are imported only when a row needs them."""
    from openipu.validation.workloads import predict_row

    return predict_row(row)


PREDICTORS: tuple[Predictor, ...] = (
    *MICRO_PREDICTORS,
    Predictor("whole models", lambda row: row.kind == "e2e", _predict_end_to_end),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A row, who answered, and what."""

    row: FigureRow
    predictor: str  # "" where nobody matched
    outcome: Outcome
    seconds: float = 0.0  # what the prediction took here


def predict_row(row: FigureRow) -> Answer:
    """Ask the first predictor that matches."""
    started = time.perf_counter()
    for predictor in PREDICTORS:
        if predictor.matches(row):
            try:
                outcome = predictor.predict(row)
            except OpenIpuError as error:
                outcome = Unmodelled(str(error))
            return Answer(row, predictor.name, outcome, time.perf_counter() - started)
    return Answer(row, "", Unmodelled(f"no predictor knows the workload {row.workload!r} with metric {row.metric!r}"))
