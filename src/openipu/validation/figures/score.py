"""How good predictions are: errors of rows, and sums over groups of them.

In: answers. Out: `Score` of a row, `Summary` of a group. An error is ln(predicted / published); percentages in text are
100 times that. A row that could not be modelled counts as such, never as right.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from openipu.validation.figures.contradiction import find_contradicted
from openipu.validation.figures.outcome import Prediction
from openipu.validation.figures.registry import Answer
from openipu.validation.figures.topics import ALL, Topic, find_topic

RANKED_ROWS = 4  # a ranking of fewer says nothing


@dataclass(frozen=True, slots=True)
class Score:
    """One row held against its published value; fields are `None` where there is nothing to compare."""

    answer: Answer
    topic: Topic
    log_error: float | None = None
    in_range: bool | None = None
    fit_right: bool | None = None

    @property
    def prediction(self) -> Prediction | None:
        outcome = self.answer.outcome
        return outcome if isinstance(outcome, Prediction) else None


@dataclass(frozen=True, slots=True)
class Summary:
    """A group of rows. Figures over no rows are `None`."""

    name: str
    rows: int
    with_value: int
    modelled: int  # of all rows
    modelled_with_value: int
    scored: int  # rows with an error: a number against a number
    median_error: float | None
    high_error: float | None  # 90th percentile
    bias: float | None  # mean signed error: below zero is predicted too low
    in_range: float | None  # share
    rank_correlation: float | None  # Spearman, within rows of one source and metric, weighted by rows
    fit_rows: int
    fit_accuracy: float | None  # balanced: mean of the shares right among what fits and what does not
    clear_fit_accuracy: float | None  # the same without misfits that a larger program contradicts
    topic: Topic | None = None


def score_answer(answer: Answer) -> Score:
    """Compare one prediction with its published value."""
    row, outcome, topic = answer.row, answer.outcome, find_topic(answer.row)
    if not isinstance(outcome, Prediction) or row.value is None:
        return Score(answer, topic)
    if row.asks_fit:
        return Score(answer, topic, fit_right=(outcome.fits or False) == (row.value > 0))
    fit_right = outcome.fits if outcome.fits is not None else None  # it was measured, so it did fit
    if row.value <= 0 or outcome.value <= 0:
        return Score(answer, topic, fit_right=fit_right)
    return Score(
        answer,
        topic,
        log_error=math.log(outcome.value / row.value),
        in_range=outcome.low <= row.value <= outcome.high,
        fit_right=fit_right,
    )


def summarise_by_topic(scores: Sequence[Score]) -> list[Summary]:
    """One summary a kind of work, in the order of `topics.ALL`, without empty ones."""
    found = [[score for score in scores if score.topic is topic] for topic in ALL]
    return [summarise(topic.name, part, topic) for topic, part in zip(ALL, found, strict=True) if part]


def summarise_by_source(scores: Sequence[Score]) -> list[Summary]:
    """One summary a source: the part of the id before its number."""
    names = dict.fromkeys(score.answer.row.group for score in scores)
    return [summarise(name, [score for score in scores if score.answer.row.group == name]) for name in names]


def summarise(name: str, scores: Sequence[Score], topic: Topic | None = None) -> Summary:
    """Add up a group."""
    errors = np.array([score.log_error for score in scores if score.log_error is not None])
    ranges = [score.in_range for score in scores if score.in_range is not None]
    judged = [score for score in scores if score.fit_right is not None]
    return Summary(
        name=name,
        rows=len(scores),
        with_value=sum(score.answer.row.value is not None for score in scores),
        modelled=sum(score.prediction is not None for score in scores),
        modelled_with_value=sum(
            score.prediction is not None and score.answer.row.value is not None for score in scores
        ),
        scored=len(errors),
        median_error=float(np.median(np.abs(errors))) if len(errors) else None,
        high_error=float(np.percentile(np.abs(errors), 90)) if len(errors) else None,
        bias=float(errors.mean()) if len(errors) else None,
        in_range=sum(ranges) / len(ranges) if ranges else None,
        rank_correlation=_correlate_ranks(scores),
        fit_rows=len(judged),
        fit_accuracy=_balance(judged),
        clear_fit_accuracy=_balance(_leave_out_contradicted(judged)),
        topic=topic,
    )


def _balance(judged: Iterable[Score]) -> float | None:
    """Mean of two shares: what fits and was said to fit, what does not and was said not to."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for score in judged:
        row = score.answer.row
        did_fit = not row.asks_fit or bool(row.value)
        right[did_fit].append(bool(score.fit_right))
    shares = [sum(part) / len(part) for part in right.values() if part]
    return sum(shares) / len(shares) if len(shares) == 2 else None


def _leave_out_contradicted(judged: Sequence[Score]) -> list[Score]:
    """Misfits are not always of memory: where a program that holds the same work ran, something else failed."""
    left_out = find_contradicted(score.answer.row for score in judged)
    return [score for score in judged if score.answer.row.id not in left_out]


def _correlate_ranks(scores: Sequence[Score]) -> float | None:
    """Spearman inside each set of rows of one source, metric and unit; sets count by their rows."""
    sets: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for score in scores:
        row, prediction = score.answer.row, score.prediction
        if prediction is not None and score.log_error is not None and row.value is not None:
            sets[row.group, row.metric, row.unit].append((row.value, prediction.value))
    weighted = [
        (len(pairs), correlate_ranks(*(np.array(side) for side in zip(*pairs, strict=True))))
        for pairs in sets.values()
        if len(pairs) >= RANKED_ROWS
    ]
    usable = [(count, rho) for count, rho in weighted if not math.isnan(rho)]
    total = sum(count for count, _ in usable)
    return sum(count * rho for count, rho in usable) / total if total else None


def correlate_ranks(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's rank correlation; equal values share their mean rank. Not a number where one side never changes."""
    first, second = rank_values(left), rank_values(right)
    first, second = first - first.mean(), second - second.mean()
    norm = math.sqrt(float((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / norm if norm else math.nan


def rank_values(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, with the mean for values that are equal."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1, len(values) + 1)
    _, inverse = np.unique(values, return_inverse=True)
    return (np.bincount(inverse, weights=ranks) / np.bincount(inverse))[inverse]
