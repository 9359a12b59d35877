"""Scores of predictions: errors, ranges, rankings, fit or no fit, and what counts as unmodelled."""

from __future__ import annotations

import math

import numpy as np
import pytest

from openipu.validation.figures import (
    Answer,
    FigureRow,
    Prediction,
    Unmodelled,
    score_answer,
    summarise_by_source,
    summarise_by_topic,
)
from openipu.validation.figures.score import correlate_ranks, rank_values, summarise
from openipu.validation.figures.topics import (
    COMPILE_TIME,
    DENSE_CONVOLUTION,
    FIT,
    GROUPED_CONVOLUTION,
    NARROW_CONVOLUTION,
    TRAINING,
    find_topic,
)


def answer(value, predicted, *, metric="throughput", number=1, spread=0.1, fits=None, group="T"):
    row = FigureRow(f"{group}-{number:03}", "micro", "c2", 1, "dense matmul", {}, metric, "TFLOPS", value)
    if predicted is None:
        return Answer(row, "", Unmodelled("no reason"))
    if metric == "fits in memory":
        return Answer(row, "x", Prediction.of_fit(bool(predicted), "x"))
    return Answer(row, "x", Prediction.around(predicted, spread, "x", fits=fits))


def test_an_error_is_the_logarithm_of_predicted_over_published():
    assert score_answer(answer(10.0, 12.0)).log_error == pytest.approx(math.log(1.2))


def test_a_range_of_a_tenth_reaches_a_factor_of_e_to_the_tenth_either_way():
    prediction = Prediction.around(10.0, 0.1, "x")
    assert (prediction.low, prediction.high) == pytest.approx((10 / math.exp(0.1), 10 * math.exp(0.1)))
    assert score_answer(answer(11.0, 10.0)).in_range
    assert not score_answer(answer(11.2, 10.0)).in_range


def test_what_could_not_be_modelled_counts_as_that_and_not_as_right():
    summary = summarise("all", [score_answer(answer(10.0, 10.0)), score_answer(answer(10.0, None, number=2))])
    assert (summary.rows, summary.modelled, summary.scored, summary.median_error) == (2, 1, 1, 0.0)


def test_a_row_without_a_value_is_predicted_and_not_scored():
    score = score_answer(answer(None, 10.0))
    assert score.prediction is not None
    assert score.log_error is None


def test_balanced_accuracy_is_the_mean_of_both_shares():
    marks = [answer(0.0, 0, metric="fits in memory", number=n) for n in range(3)]  # 3 of 4 misfits are found
    marks += [answer(0.0, 1, metric="fits in memory", number=3)]
    ran = [answer(5.0, 5.0, number=4, fits=True), answer(5.0, 5.0, number=5, fits=False)]  # 1 of 2 that ran
    summary = summarise("all", [score_answer(entry) for entry in marks + ran])
    assert summary.fit_accuracy == pytest.approx((3 / 4 + 1 / 2) / 2)


def test_a_misfit_that_a_larger_batch_contradicts_is_left_out_of_the_clear_accuracy():
    def mark(batch, value, fits, number):
        metric = "throughput" if value else "fits in memory"
        row = FigureRow(f"T-{number}", "e2e", "c600", 1, "ResNet-50", {"batch": batch}, metric, "x", value)
        outcome = Prediction.around(1.0, 0.1, "x", fits=fits) if value else Prediction.of_fit(fits, "x")
        return score_answer(Answer(row, "x", outcome))

    scores = [mark(4, 0.0, True, 1), mark(8, 5.0, True, 2), mark(16, 0.0, False, 3)]
    summary = summarise("all", scores)
    assert summary.fit_accuracy == pytest.approx((1 + 1 / 2) / 2)
    assert summary.clear_fit_accuracy == 1.0


def test_accuracy_of_one_kind_alone_is_not_balanced():
    summary = summarise("all", [score_answer(answer(0.0, 0, metric="fits in memory"))])
    assert (summary.fit_rows, summary.fit_accuracy) == (1, None)


def test_rankings_are_compared_within_rows_of_one_source_and_metric():
    up = [score_answer(answer(v, 2 * v, number=n)) for n, v in enumerate((1.0, 2.0, 3.0, 4.0))]
    down = [score_answer(answer(v, 9 - v, number=n, group="U")) for n, v in enumerate((1.0, 2.0, 3.0, 4.0))]
    assert summarise("up", up).rank_correlation == pytest.approx(1.0)
    assert summarise("both", up + down).rank_correlation == pytest.approx(0.0)
    assert summarise("three", up[:3]).rank_correlation is None


def test_equal_values_share_their_rank():
    assert rank_values(np.array([5.0, 1.0, 5.0, 7.0])).tolist() == [2.5, 1.0, 2.5, 4.0]
    assert math.isnan(correlate_ranks(np.array([1.0, 1.0]), np.array([1.0, 2.0])))


def test_summaries_are_by_topic_and_by_source():
    scores = [score_answer(answer(1.0, 1.0)), score_answer(answer(1.0, 1.0, group="U"))]
    assert [summary.name for summary in summarise_by_topic(scores)] == ["dense matmul"]
    assert [summary.name for summary in summarise_by_source(scores)] == ["T", "U"]


@pytest.mark.parametrize(
    ("kind", "workload", "params", "metric", "topic"),
    [
        ("micro", "conv forward X", {"cin": 64, "groups": 1}, "throughput", DENSE_CONVOLUTION),
        ("micro", "conv forward X", {"cin": 256, "groups": 32}, "throughput", GROUPED_CONVOLUTION),
        ("micro", "conv forward X", {"cin": 128, "groups": 32}, "throughput", NARROW_CONVOLUTION),
        ("micro", "conv forward X", {"cin": 3}, "throughput", NARROW_CONVOLUTION),
        ("micro", "conv forward X", {"cin": 3}, "fits in memory", FIT),
        ("e2e", "BERT-Large", {}, "training throughput", TRAINING),
        ("e2e", "ResNet-50", {}, "compile time", COMPILE_TIME),
    ],
)
def test_a_topic_is_found_by_what_was_measured(kind, workload, params, metric, topic):
    assert find_topic(FigureRow("A-1", kind, "c2", 1, workload, params, metric, "s")) is topic
