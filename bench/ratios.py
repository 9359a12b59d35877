"""Medians, quartiles and geometric means of ratios that were measured round by round.

In: seconds of each round; None where a way sat a round out. Out: a `Spread` of the rounds' ratios. The ratio of a
round compares neighbours in time, so that a slow minute of the machine does not count for or against anyone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median with the quartiles around it."""

    median: float
    lower: float
    upper: float
    rounds: int


def summarize(values: Iterable[float | None]) -> Spread | None:
    """The spread of the values that are there; None if there is none."""
    present = sorted(value for value in values if value is not None)
    if not present:
        return None
    if len(present) == 1:
        return Spread(present[0], present[0], present[0], 1)
    lower, median, upper = statistics.quantiles(present, n=4, method="inclusive")
    return Spread(median, lower, upper, len(present))


def show(found: Spread | None, scale: float = 1.0, form: str = ".2f") -> str:
    """A median with its quartiles, as text."""
    if found is None:
        return "-"
    middle, low, high = (f"{value * scale:{form}}" for value in (found.median, found.lower, found.upper))
    return f"{middle} ({low} to {high})"


def compare(numerators: Sequence[float | None], denominators: Sequence[float | None]) -> Spread | None:
    """The spread of the ratios of those rounds in which both took part."""
    return summarize(
        above / below
        for above, below in zip(numerators, denominators, strict=True)
        if above is not None and below is not None
    )


def find_geometric_mean(values: Iterable[float | None]) -> float | None:
    """The geometric mean of the values that are there; None if there is none."""
    logarithms = [math.log(value) for value in values if value is not None]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def find_limit_seconds(flops: float, traffic_bytes: float, flops_per_second: float, bytes_per_second: float) -> float:
    """The least time of a step on this host: its products, then its weights through memory."""
    return flops / flops_per_second + traffic_bytes / bytes_per_second


def measure_growth(steps: Sequence[int], resident_bytes: Sequence[int], after: int) -> float:
    """Bytes a step that memory grows by after the first `after` steps: the slope of the best straight line."""
    pairs = [(step, size) for step, size in zip(steps, resident_bytes, strict=True) if step >= after]
    if len(pairs) < 2:
        raise ValueError(f"Growth needs two readings of memory at step {after} or later, not {len(pairs)}.")
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope
