"""What `openipu plan` shows: one row per job, and the reasons of those that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from openipu.cli.rows import Column, print_rows
from openipu.cli.terminal import open_console, shorten_place
from openipu.explore.levers import Advice, FrontEnd, LeverKind, Limit, describe_untried, record_advice
from openipu.jobs import PlanningJob
from openipu.machine import System
from openipu.plan import Plan
from openipu.report import build_profile, write_html, write_profile
from openipu.report.units import (
    format_bytes,
    format_change,
    format_cycles,
    format_probability,
    format_rate,
    format_seconds,
    format_share,
)

_CULPRITS = 6  # tensors named for a job that does not fit
_SURE = 0.95  # probability of fitting below which a job that fits is said to be close to the limit
_COLUMNS = (
    Column("job", words=True),
    Column("fits", figures=False),
    Column("peak tile\nKiB"),
    Column("cycles/\nmicro-batch"),
    Column("time/call"),
    Column("samples/s"),
    Column("guessed\nops", spare=1),  # said below in words
    Column("planned in", spare=2),
)
_CULPRIT_COLUMNS = (Column(""), Column("", words=True))
_LEVER_COLUMNS = (
    Column("", words=True),
    Column("fits", figures=False),
    Column("peak tile\nKiB"),
    Column("saved\non it"),
    Column("IPU cycles/\nsample"),
    Column("time/\nsample"),
)


@dataclass(eq=False)
class Planned:
    """One planned job."""

    target: str
    name: str
    job: PlanningJob
    plan: Plan
    seconds: float  # capture and planning
    report: Path | None = None
    advice: Advice | None = None  # for a job that does not fit


def describe_planned(entry: Planned) -> dict[str, Any]:
    """The row as plain data, with units in the names."""
    plan, fit, timing = entry.plan, entry.plan.fit, entry.plan.timing
    return {
        "target": entry.target,
        "name": entry.name,
        "fits": fit.fits,
        "fit_probability": fit.probability,
        "peak_tile_bytes": fit.peak_bytes,
        "limit_tile_bytes": fit.limit_bytes,
        "tiles_over": fit.tiles_over,
        "bytes_over": fit.bytes_over,
        "micro_batch": plan.micro_batch,
        "micro_cycles": timing.micro_cycles,
        "update_cycles": timing.update_cycles,
        "call_cycles": timing.call_cycles,
        "call_seconds": timing.call_seconds,
        "samples_per_second": timing.samples_per_second,
        "guessed_cycles": timing.guessed_cycles,
        "guessed_ops": dict(plan.guessed_ops),
        "warnings": list(plan.warnings),
        "planning_seconds": entry.seconds,
        "report": str(entry.report) if entry.report else None,
        "advice": entry.advice.describe() if entry.advice is not None else None,
    }


def write_report(plan: Plan, directory: Path, advice: Advice | None = None) -> Path:
    """profile.pop and report.html of a plan, in a directory of its own. The page comes back."""
    profile = build_profile(plan, None if advice is None else record_advice(advice, FrontEnd.OPENIPU))
    write_profile(profile, directory)
    return write_html(profile, directory / "report.html")


def print_planned(planned: Sequence[Planned], system: System) -> None:
    console = open_console()
    console.print(f"[bold]{escape(system.name)}[/]  {escape(system.description)}; modelled, cycles of one replica\n")
    rows = []
    for entry in planned:
        fit, timing = entry.plan.fit, entry.plan.timing
        colour = "green" if fit.fits else "red"
        rows.append(
            (
                f"[bold]{escape(entry.name)}[/]",
                f"[{colour}]{'yes' if fit.fits else 'no'}[/]",
                f"{fit.peak_bytes / 1024:.0f} of {fit.limit_bytes / 1024:.0f}",
                format_cycles(timing.micro_cycles),
                format_seconds(timing.call_seconds),
                format_rate(timing.samples_per_second),
                str(sum(entry.plan.guessed_ops.values())),
                format_seconds(entry.seconds),
            )
        )
    print_rows(console, _COLUMNS, rows)
    for entry in planned:
        _print_reasons(console, entry)
    for entry in planned:
        if entry.report is not None:
            console.print(f"\nreport of {escape(entry.name)}: {escape(str(entry.report))}", soft_wrap=True)


def _print_reasons(console: Console, entry: Planned) -> None:
    fit, timing = entry.plan.fit, entry.plan.timing
    for warning in entry.plan.warnings:
        console.print(f"\n[bold]{escape(entry.name)}[/]: [yellow]{escape(warning)}[/]", soft_wrap=True)
    if entry.plan.guessed_ops:
        share = timing.guessed_cycles / timing.call_cycles if timing.call_cycles else 0.0
        names = ", ".join(f"{name} x {count}" for name, count in sorted(entry.plan.guessed_ops.items()))
        console.print(
            f"\n[bold]{escape(entry.name)}[/]: {format_share(share)} of the cycles are guessed: {escape(names)}"
        )
    chance = format_probability(fit.probability)
    if fit.fits and fit.probability < _SURE:
        console.print(f"\n[bold]{escape(entry.name)}[/] is close to the limit: probability that it fits {chance}")
    if fit.fits:
        return
    console.print(
        f"\n[bold]{escape(entry.name)}[/] [red]does not fit[/]: {fit.tiles_over:,} tiles are over, by "
        f"{format_bytes(fit.bytes_over)} in all; the fullest is tile {fit.peak_tile} of IPU {fit.peak_ipu}, "
        f"{format_bytes(fit.bytes_over_worst_tile)} over. Probability that it fits a real IPU: {chance}. "
        "The largest tensors on that tile:"
    )
    for culprit in fit.culprits[:_CULPRITS]:
        place = str(culprit.line or ("" if culprit.module in culprit.name else culprit.module))
        told = f"{escape(culprit.name)} ({escape(culprit.kind)}, {format_bytes(culprit.bytes_total)} in all)"
        size = f"{format_bytes(culprit.bytes_on_tile):>10}"
        print_rows(console, _CULPRIT_COLUMNS, [(size, f"{told}  [dim]{escape(shorten_place(place))}[/]")])
    if entry.advice is None:
        console.print("Try a smaller micro-batch, half precision, or a lower available-memory proportion.")
    else:
        _print_advice(console, entry.advice)


def _print_advice(console: Console, advice: Advice) -> None:
    """What each lever saves and costs, the best first, and the line that makes it fit."""
    rows = []
    for lever in advice.levers:
        saved = lever.saved_tile_bytes
        rows.append(
            (
                escape(lever.title),
                "[green]yes[/]" if lever.fits else "[red]no[/]",
                f"{lever.plan.fit.peak_bytes / 1024:.0f}",
                f"{'-' if saved < 0 else ''}{format_bytes(abs(saved))}",
                f"{'+' if lever.paid_cycles >= 0 else '-'}{format_cycles(abs(lever.paid_cycles))}",
                format_change(lever.slowdown),
            )
        )
    if rows:
        print_rows(console, _LEVER_COLUMNS, rows, "\nplanned again with")
    if not advice.complete:
        console.print(f"[yellow]{escape(describe_untried(advice))}[/] {_say_more(advice)}")
    if advice.best is None:
        further = "`openipu auto` looks further for a split over IPUs; else choose" if _has_split(advice) else "Choose"
        console.print(f"Nothing that was planned makes it fit. {further} a larger system, or a smaller model.")
        return
    console.print(f"\nIt fits with {escape(advice.best.title)}:")
    for front_end, line in advice.words.items():
        console.print(f"  {front_end + ':':<20}{escape(line)}", soft_wrap=True)


def _has_split(advice: Advice) -> bool:
    return any(setting.kind is LeverKind.MORE_IPUS for lever in advice.levers for setting in lever.settings)


def _say_more(advice: Advice) -> str:
    """The option that gives the search more room."""
    if advice.stopped_by is None:
        return ""
    return "--advice-seconds gives more time." if advice.stopped_by is Limit.TIME else "--advice-plans allows more."
