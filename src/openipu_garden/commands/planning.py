"""`openipu garden plan`: a family as it was published, modelled beside published."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from openipu.cli.rows import Column, print_rows
from openipu.cli.terminal import open_console, print_json
from openipu.validation.figures import FigureRow, Score, Unmodelled, find_system
from openipu_garden.commands.listing import format_figure
from openipu_garden.family import Family
from openipu_garden.figures import choose_rows, count_weights, find_origin, score_row
from openipu_garden.registry import find_family

_COLUMNS = (
    Column("row", figures=False, spare=2),
    Column("configuration", words=True),
    Column("system", figures=False),
    Column("fits", figures=False),
    Column("modelled"),
    Column("range", spare=1),
    Column("published"),
    Column("unit", figures=False),
    Column("error"),
)


def execute(arguments: argparse.Namespace) -> int:
    family = find_family(arguments.name)
    rows = choose_rows(family, arguments.system)
    console = open_console(stderr=True)
    scores = []
    if console.is_terminal:
        with console.status("planning") as status:
            for row in rows:
                status.update(escape(f"planning {row.workload} on {row.system}"))
                scores.append(score_row(row))
    else:
        scores = [score_row(row) for row in rows]
    if arguments.json:
        print_json(
            {
                "name": family.name,
                "title": family.title,
                "weights": count_weights(family),
                "modelled": True,
                "rows": [describe_score(score) for score in scores],
            }
        )
    else:
        _print_scores(family, scores)
    return 0


def describe_score(score: Score) -> dict[str, Any]:
    """A row, what was said of it and what was published, as plain data."""
    row, prediction, outcome = score.answer.row, score.prediction, score.answer.outcome
    return {
        "id": row.id,
        "workload": row.workload,
        "params": dict(row.params),
        "system": find_system(row).name,
        "ipus": row.ipus,
        "metric": row.metric,
        "unit": row.unit,
        "predicted": prediction.value if prediction else None,
        "low": prediction.low if prediction else None,
        "high": prediction.high if prediction else None,
        "fits": prediction.fits if prediction else None,
        "basis": prediction.basis if prediction else None,
        "published": row.value,
        "source": row.source or None,
        "log_error": score.log_error,
        "reason": outcome.reason if isinstance(outcome, Unmodelled) else None,
    }


def _print_scores(family: Family, scores: Sequence[Score]) -> None:
    console = open_console()
    size = f"{count_weights(family):,} weights"
    console.print(f"[bold]{escape(family.title)}[/]  {escape(family.paper)}; {size}; all plans are modelled\n")
    print_rows(console, _COLUMNS, [_make_row(score) for score in scores])
    _print_notes(console, scores)


def _make_row(score: Score) -> tuple[str, ...]:
    row, prediction = score.answer.row, score.prediction
    published = "[dim]-[/]" if row.value is None else format_figure(row.value)
    name = f"{row.workload}, {_describe_params(score)}".strip(", ")
    system = find_system(row).name
    if prediction is None:
        return row.id, escape(name), system, "", "[dim]not modelled[/]", "", published, escape(row.unit), ""
    fits = "" if prediction.fits is None else "[green]yes[/]" if prediction.fits else "[red]no[/]"
    return (
        row.id,
        escape(name),
        system,
        fits,
        format_figure(prediction.value),
        f"{format_figure(prediction.low)} to {format_figure(prediction.high)}",
        published,
        escape(row.unit),
        _show_error(score),
    )


def _describe_params(score: Score) -> str:
    """What tells configurations apart: batch, precision, framework."""
    params = score.answer.row.params
    parts = [str(params[name]) for name in ("framework", "precision", "dtype") if name in params]
    parts += [f"batch {params[name]:,}" for name in ("global_batch", "batch") if name in params]
    return ", ".join(parts)


def _show_error(score: Score) -> str:
    if score.log_error is None:
        return ""
    return f"[{'green' if score.in_range else 'yellow'}]{100 * score.log_error:+.1f} %[/]"


def _print_notes(console: Console, scores: Sequence[Score]) -> None:
    for score in scores:
        prediction, outcome = score.prediction, score.answer.outcome
        said = outcome.reason if isinstance(outcome, Unmodelled) else prediction.basis if prediction else ""
        row = score.answer.row
        if row.value is None:
            said += f"; {_explain_silence(row)}"
        console.print(f"{escape(row.id)}: {escape(said)}", style="dim", soft_wrap=True)
    console.print("Errors are 100 x ln(modelled / published); ranges are to hold nine values of ten.", style="dim")


def _explain_silence(row: FigureRow) -> str:
    """Why a row has no published value."""
    origin = find_origin(row)
    if origin.value is None:
        return "nothing is published of it that we know; the configuration is our choice"
    return f"published for {origin.system}: {format_figure(origin.value)} {origin.unit}"
