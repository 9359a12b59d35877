"""What `openipu validate` prints and writes.

In: scores of rows. Out: tables, or one JSON document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from openipu.cli.terminal import make_table, open_console, print_json
from openipu.errors import OptionError
from openipu.files.saving import save_text
from openipu.validation.figures import Score, Summary, Unmodelled, summarise_by_source, summarise_by_topic
from openipu.validation.figures.score import summarise


def write_document(document: Mapping[str, Any], target: str) -> None:
    """To a file, or to standard output for "-"."""
    if target == "-":
        print_json(document)
        return
    try:
        save_text(Path(target), json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OptionError(f"Cannot write {target}: {error.strerror}. Choose another path for --json.") from error


def describe_validation(scores: Sequence[Score], figures: str, seconds: float) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "figures": figures,
        "modelled": True,
        "seconds": round(seconds, 3),
        "all": _describe_summary(summarise("all", scores)),
        "by_kind": [_describe_summary(summary) for summary in summarise_by_topic(scores)],
        "by_source": [_describe_summary(summary) for summary in summarise_by_source(scores)],
        "rows": [_describe_score(score) for score in scores],
    }


def _describe_score(score: Score) -> dict[str, Any]:
    row, prediction = score.answer.row, score.prediction
    described: dict[str, Any] = {
        "id": row.id,
        "system": row.system,
        "workload": row.workload,
        "metric": row.metric,
        "unit": row.unit,
        "kind": score.topic.name,
        "published": row.value,
        "predicted": prediction.value if prediction else None,
        "low": prediction.low if prediction else None,
        "high": prediction.high if prediction else None,
        "fits": prediction.fits if prediction else None,
        "fit_probability": prediction.fit_probability if prediction else None,
        "log_error": score.log_error,
        "in_range": score.in_range,
        "fit_right": score.fit_right,
        "basis": prediction.basis if prediction else "",
        "terms": dict(prediction.terms) if prediction else {},
        "seconds": round(score.answer.seconds, 3),
    }
    if isinstance(score.answer.outcome, Unmodelled):
        described["reason"] = score.answer.outcome.reason
    return described


def _describe_summary(summary: Summary) -> dict[str, Any]:
    goal = summary.topic
    return {
        "name": summary.name,
        "rows": summary.rows,
        "rows_with_value": summary.with_value,
        "modelled": summary.modelled,
        "modelled_with_value": summary.modelled_with_value,
        "scored": summary.scored,
        "median_error": summary.median_error,
        "p90_error": summary.high_error,
        "bias": summary.bias,
        "share_in_range": summary.in_range,
        "spearman": summary.rank_correlation,
        "fit_rows": summary.fit_rows,
        "fit_balanced_accuracy": summary.fit_accuracy,
        "fit_balanced_accuracy_without_contradicted": summary.clear_fit_accuracy,
        "median_goal": goal.median_goal if goal else None,
        "p90_goal": goal.high_goal if goal else None,
    }


def print_validation(scores: Sequence[Score], *, show_rows: bool, seconds: float) -> None:
    """Rows if wanted, then both summaries, then what could not be modelled."""
    console = open_console()
    if show_rows:
        _print_rows(console, scores)
    _print_summaries(console, "by kind of work", [*summarise_by_topic(scores), summarise("all", scores)])
    _print_summaries(console, "by source", summarise_by_source(scores))
    _print_unmodelled(console, scores)
    console.print(
        "Errors are 100 x ln(predicted / published). fit: mean share right of what ran and of what did not; "
        "in brackets without misfits where a larger program that holds the same work ran. "
        f"{len(scores)} rows in {seconds:.1f} s; all predictions are modelled.",
        style="dim",
    )


def _print_summaries(console: Console, title: str, summaries: Sequence[Summary]) -> None:
    table = make_table(f"[bold]{title}[/]")
    table.add_column(title.partition(" ")[2])
    for heading in ("modelled", "median", "p90", "bias", "in range", "Spearman", "fit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            escape(summary.name),
            f"{summary.modelled} / {summary.rows}",
            _show_error(summary.median_error, summary.topic.median_goal if summary.topic else None),
            _show_error(summary.high_error, summary.topic.high_goal if summary.topic else None),
            f"{100 * summary.bias:+.0f} %" if summary.bias is not None else "",
            f"{100 * summary.in_range:.0f} %" if summary.in_range is not None else "",
            f"{summary.rank_correlation:.3f}" if summary.rank_correlation is not None else "",
            _show_fit(summary),
        )
    console.print(table)
    console.print()


def _show_fit(summary: Summary) -> str:
    """Balanced accuracy; in brackets without misfits that a larger program contradicts."""
    if summary.fit_accuracy is None:
        return ""
    text = f"{100 * summary.fit_accuracy:.0f} %"
    if summary.clear_fit_accuracy is None or summary.clear_fit_accuracy == summary.fit_accuracy:
        return text
    return f"{text} ({100 * summary.clear_fit_accuracy:.0f} %)"


def _show_error(error: float | None, goal: float | None) -> str:
    """Green within its goal, yellow above it, plain where there is none."""
    if error is None:
        return ""
    text = f"{100 * error:.1f} %"
    if goal is None:
        return text
    return f"[green]{text}[/]" if error <= goal else f"[yellow]{text} > {100 * goal:.0f}[/]"


def _print_rows(console: Console, scores: Sequence[Score]) -> None:
    table = make_table()
    for heading, justify in (
        ("row", "left"),
        ("workload", "left"),
        ("predicted", "right"),
        ("range", "right"),
        ("published", "right"),
        ("unit", "left"),
        ("error", "right"),
    ):
        table.add_column(heading, justify=justify, no_wrap=heading != "workload")  # type: ignore[arg-type]
    for score in scores:
        row, prediction = score.answer.row, score.prediction
        published = f"{row.value:.4g}" if row.value is not None else ""
        if prediction is None:
            table.add_row(row.id, escape(row.workload), "[dim]not modelled[/]", "", published, row.unit, "")
            continue
        table.add_row(
            row.id,
            escape(_name_workload(score)),
            f"{prediction.value:.4g}",
            "" if row.asks_fit else f"{prediction.low:.3g} to {prediction.high:.3g}",
            published,
            escape(row.unit),
            _show_row_error(score),
        )
    console.print(table)
    console.print()


def _show_row_error(score: Score) -> str:
    if score.answer.row.asks_fit and score.fit_right is not None:
        return "[green]right[/]" if score.fit_right else "[red]wrong[/]"
    if score.log_error is None:
        return ""
    colour = "green" if score.in_range else "yellow"
    return f"[{colour}]{100 * score.log_error:+.1f} %[/]"


def _name_workload(score: Score) -> str:
    """The workload with its short parameters: what tells rows apart."""
    parts = [f"{key}={value}" for key, value in score.answer.row.params.items() if len(str(value)) <= 24]
    return f"{score.answer.row.workload} {' '.join(parts)}".strip()


def _print_unmodelled(console: Console, scores: Sequence[Score]) -> None:
    """Reasons, each once, with the rows that it stands for."""
    reasons: dict[str, list[str]] = {}
    for score in scores:
        if isinstance(score.answer.outcome, Unmodelled):
            reasons.setdefault(score.answer.outcome.reason, []).append(score.answer.row.id)
    if not reasons:
        return
    table = make_table("[bold]not modelled[/]")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("which", overflow="fold", ratio=1)
    table.add_column("why", overflow="fold", ratio=2)
    for reason, ids in reasons.items():
        shown = ", ".join(ids[:4]) + (" …" if len(ids) > 4 else "")
        table.add_row(str(len(ids)), shown, escape(reason))
    console.print(table)
    console.print()
