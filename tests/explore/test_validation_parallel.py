"""Rows in several processes: the same answers, in the order of the file."""

from __future__ import annotations

import pytest

from openipu.errors import OptionError
from openipu.validation.figures import FigureRow, Prediction, predict_together
from openipu.validation.figures.parallel import MICRO_ROWS, group_rows


def make_micro(number):
    return FigureRow(
        f"AMP-{number:03}", "micro", "Bow IPU 1.85GHz", 1, "on-tile AMP matmul Nx16 by 16x16", {"N": number},
        "cycles per call", "cycles",
    )  # fmt: skip


def make_whole(number, workload, **params):
    return FigureRow(f"E2E-{number:03}", "e2e", "C600 (IPU21)", 1, workload, params, "throughput", "samples/s")


def test_two_processes_answer_as_one_does():
    rows = [make_micro(number) for number in range(8, 8 + MICRO_ROWS + 4)]
    alone, together = predict_together(rows, processes=1), predict_together(rows, processes=2)
    assert [answer.row.id for answer in together] == [row.id for row in rows]
    assert [answer.outcome for answer in together] == [answer.outcome for answer in alone]
    assert all(isinstance(answer.outcome, Prediction) for answer in together)


def test_rows_of_one_model_stay_together_sorted_by_batch():
    rows = [
        make_whole(1, "ResNet-50 inference", dtype="fp16", batch=8),
        make_whole(2, "BERT-Base SL128 inference", dtype="fp16", batch=2),
        make_whole(3, "ResNet-50 inference", dtype="fp16", batch=1),
        make_whole(4, "walk the dog"),
        make_micro(16),
    ]
    groups = [[row.id for row in group] for group in group_rows(rows)]
    assert groups == [["E2E-003", "E2E-001"], ["E2E-002"], ["E2E-004"], ["AMP-016"]]


def test_progress_names_each_row_that_is_begun():
    seen: list[str] = []
    predict_together([make_micro(8), make_micro(16)], progress=lambda row: seen.append(row.id))
    assert seen == ["AMP-008", "AMP-016"]


def test_no_process_at_all_is_refused():
    with pytest.raises(OptionError, match="at least one process, not 0"):
        predict_together([make_micro(8)], processes=0)
