"""The seam of validation: what a predictor gets and what it answers.

In: a `FigureRow`. Out: a `Prediction`, or `Unmodelled` with the reason.

How to plug in a predictor
--------------------------
A predictor is a plain function `predict(row) -> Prediction | Unmodelled`. It is listed in `registry.PREDICTORS` as a
pair (`matches`, `predict`): the first whose `matches(row)` is true answers for the row, and nobody else is asked.
`matches` looks at `row.kind`, `row.workload`, `row.params` and `row.metric`, never at `row.id` or `row.value`: a row of
another file with other sizes must find the same predictor. Rows of kind "e2e" go to
`openipu.validation.workloads.predict_row`.

A `Prediction` is in the row's own unit: `row.from_si(seconds)` turns seconds, bytes a second, operations a second or
items a second into it. `low` and `high` are the range in which the published value is expected nine times out of ten;
`Prediction.around(value, spread)` makes one from a spread, the natural logarithm of a factor (0.2 is about 20 % either
way). `fits` says whether the program fits its IPUs; for a row that asks just that (`metric` "fits in memory") the value
is 1 or 0. `terms` are the parts that add up to the prediction, for people who want to know why.

An error of `openipu.errors` that a predictor raises becomes an `Unmodelled` row with its message; any other exception
is a defect and is not caught.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from openipu.validation.figures.rows import FigureRow


@dataclass(frozen=True, slots=True)
class Prediction:
    """A number in the row's unit, with the range that it stands for."""

    value: float
    low: float
    high: float
    basis: str  # which code made it: "plan of aten.mm", "exchange rule"
    fits: bool | None = None  # None: nothing was asked of memory
    terms: Mapping[str, float] = field(default_factory=dict)
    fit_probability: float | None = None  # how sure `fits` is; None with it

    @staticmethod
    def around(
        value: float,
        spread: float,
        basis: str,
        *,
        fits: bool | None = None,
        fit_probability: float | None = None,
        terms: Mapping[str, float] | None = None,
    ) -> Prediction:
        """A range of a factor e^spread either way."""
        factor = math.exp(spread)
        return Prediction(value, value / factor, value * factor, basis, fits, terms or {}, fit_probability)

    @staticmethod
    def of_fit(
        fits: bool, basis: str, *, probability: float | None = None, terms: Mapping[str, float] | None = None
    ) -> Prediction:
        """The answer to "does it fit?": 1 or 0, with nothing between, and how sure that is."""
        return Prediction(float(fits), float(fits), float(fits), basis, fits, terms or {}, probability)


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """No prediction, and why."""

    reason: str


Outcome = Prediction | Unmodelled
Predict = Callable[[FigureRow], Outcome]
Matches = Callable[[FigureRow], bool]


@dataclass(frozen=True, slots=True)
class Predictor:
    """A function that answers for the rows it matches."""

    name: str
    matches: Matches
    predict: Predict
