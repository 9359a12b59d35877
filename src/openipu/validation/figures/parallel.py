"""Predicts rows in several processes.

In: rows. Out: their answers, in the order of the rows. Rows of one model go to one process, one after the other: it
keeps captured programs and finished plans, and many rows ask for the same. The largest groups start first, so that no
process is left with one of them at the end.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from openipu.errors import OpenIpuError, OptionError
from openipu.validation.figures.registry import Answer, predict_row
from openipu.validation.figures.rows import FigureRow

WORTH_ROWS = 12  # fewer are done before a second process has imported torch
MICRO_ROWS = 24  # of a group: single ops share little, and take milliseconds to a second

Progress = Callable[[FigureRow], None]


def predict_together(
    rows: Sequence[FigureRow], *, processes: int | None = None, progress: Progress | None = None
) -> list[Answer]:
    """An answer for each row. `processes` None: one for each core, as far as there is work for them."""
    if processes is not None and processes < 1:
        raise OptionError(f"Predictions need at least one process, not {processes}.")
    groups = group_rows(rows)
    wanted = processes or (len(os.sched_getaffinity(0)) if len(rows) >= WORTH_ROWS else 1)
    count = min(wanted, len(groups))
    answers: dict[str, Answer] = {}
    if count <= 1:
        for group in groups:
            answers |= _predict_group(group, progress)
        return [answers[row.id] for row in rows]
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        tasks = {pool.submit(_predict_group, group): group for group in groups}
        for task in as_completed(tasks):
            answers |= task.result()
            if progress is not None:
                progress(tasks[task][-1])
    return [answers[row.id] for row in rows]


def group_rows(rows: Sequence[FigureRow]) -> list[list[FigureRow]]:
    """Rows that share a model, then single ops in parts of equal length; large groups first."""
    models: dict[Hashable, list[FigureRow]] = {}
    single: list[FigureRow] = []
    for row in rows:
        if row.kind == "e2e":
            models.setdefault(_find_model(row), []).append(row)
        else:
            single.append(row)
    whole = [sorted(group, key=_order_within) for group in models.values()]
    whole.sort(key=len, reverse=True)
    return whole + [single[start : start + MICRO_ROWS] for start in range(0, len(single), MICRO_ROWS)]


def _find_model(row: FigureRow) -> Hashable:
    from openipu.validation.workloads.recognise import recognise_model

    try:
        return recognise_model(row)
    except OpenIpuError:
        return row.workload  # nobody knows it: its answer is a reason


def _order_within(row: FigureRow) -> tuple[float, str]:
    """Rows of one micro-batch follow each other: few captured programs are kept at a time."""
    batch = row.params.get("micro_batch", row.params.get("batch", row.params.get("global_batch", 0)))
    return (float(batch) if isinstance(batch, int | float) else 0.0), row.system


def _predict_group(rows: Sequence[FigureRow], progress: Progress | None = None) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for row in rows:
        if progress is not None:
            progress(row)
        answers[row.id] = predict_row(row)
    return answers
