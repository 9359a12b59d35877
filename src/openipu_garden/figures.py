"""The figures published of the garden's families, and what the model of the IPU says of the same configurations.

In: `figures.csv`, with the columns of `openipu validate`; a row without a value is a configuration of our own choice,
because none is published. Out: rows, and scores of them: predicted, published, range, error.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

from openipu.errors import OptionError
from openipu.machine import System, resolve_system
from openipu.validation.figures import FigureRow, Score, find_system, predict_row, read_rows, score_answer
from openipu.validation.workloads import count_parameters, recognise_model
from openipu_garden.family import Family

FIGURES = Path(__file__).with_name("figures.csv")
_TIED_TO_A_SYSTEM = ("replicas", "grad_accum", "ipus_per_replica", "layers_per_ipu", "submission", "runs")


@cache
def read_figures() -> dict[str, FigureRow]:
    """Every row, by its id."""
    return {row.id: row for row in read_rows(FIGURES)}


def list_rows(family: Family) -> tuple[FigureRow, ...]:
    """A family's rows, its main configuration first."""
    return tuple(read_figures()[name] for name in family.figures)


def list_published(family: Family) -> tuple[FigureRow, ...]:
    """Those that somebody has measured."""
    return tuple(row for row in list_rows(family) if row.value is not None)


def count_weights(family: Family) -> int:
    """Of the model at its published size."""
    return count_parameters(recognise_model(list_rows(family)[0]))


def choose_rows(family: Family, system: str | None) -> tuple[FigureRow, ...]:
    """All rows; for a system those that were measured on it, else the main configuration moved to it."""
    rows = list_rows(family)
    if not rows:
        raise OptionError(f"{family.title} has no configuration to plan.")
    if system is None:
        return rows
    wanted = resolve_system(system)
    there = tuple(row for row in rows if find_system(row).name == wanted.name)
    return there or (_move(rows[0], wanted),)


def find_origin(row: FigureRow) -> FigureRow:
    """The row of the file that a row is, or was moved from."""
    return read_figures()[row.id]


def _move(row: FigureRow, system: System) -> FigureRow:
    """The same work on another machine. What was measured, and how it was laid out there, says nothing of it."""
    params = {name: value for name, value in row.params.items() if name not in _TIED_TO_A_SYSTEM}
    return dataclasses.replace(row, system=system.name, ipus=system.ipus, params=params, value=None, source="")


def score_row(row: FigureRow) -> Score:
    """What the model says, held against what was published."""
    return score_answer(predict_row(row))
