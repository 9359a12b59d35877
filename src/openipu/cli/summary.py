"""The few lines at the end of `openipu run`: what an IPU would do with each program that the script compiled.

In: the session's log. Out: text on standard error and, where a profile was asked for, report.html beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from openipu.cli.terminal import open_console, shorten_place
from openipu.errors import OpenIpuError
from openipu.history import CompiledProgram, History
from openipu.report import read_profile, write_html
from openipu.report.summary import KIND_ORDER
from openipu.report.units import format_bytes, format_bytes_of, format_cycles, format_rate, format_seconds, format_share

REPORT_NAME = "report.html"
TRACE_PAGE_NAME = "system.html"
_SESSION = "openipu.session"  # what every front end compiles with


def close_run(history: History, *, quiet: bool, failed: bool) -> None:
    """Write the reports and, unless quiet, print one block a program. Never hides how the script itself ended.

    A script that failed has told why: that it compiled nothing is no news then.
    """
    console = open_console(stderr=True)
    if not history.compiled and not quiet and not failed:
        hint = "" if _SESSION in sys.modules else " `openipu doctor` lists the front ends that lead to one."
        console.print(f"openipu: the script compiled no IPU program, so there is nothing to report.{hint}")
    for compiled, count in history.compiled.items():
        try:
            report = _write_report(compiled)
            if not quiet:
                _print_program(console, compiled, count, report, history.profiles.get(compiled))
        except OpenIpuError as error:
            console.print(f"openipu: no report of {escape(compiled.name)}: {escape(str(error))}", soft_wrap=True)
    if not quiet:
        _print_verified(console, history)


def _print_verified(console: Console, history: History) -> None:
    for (name, agrees), count in history.verified.items():
        calls = "1 call agrees" if count == 1 else f"{count} calls agree"
        text = f"{calls} with the reference" if agrees else "[bold]differs from the reference[/bold]: see the warning"
        console.print(f"\nverified: {escape(name)}: {text}", soft_wrap=True)


def close_trace(directory: Path, started: float, *, quiet: bool) -> None:
    """Complete the trace and write its page, with all processes that have written a file there since the start."""
    from openipu.report.system import summarise_trace, write_system_page
    from openipu.trace import stop_tracing
    from openipu.trace.read import read_trace
    from openipu.trace.trace_file import SUFFIX

    console = open_console(stderr=True)
    try:
        stop_tracing()
        files = [file for file in directory.glob(f"*{SUFFIX}") if file.stat().st_mtime >= started]
        trace = read_trace(*files or [directory])
        page = write_system_page(trace, directory / TRACE_PAGE_NAME)
    except OpenIpuError as error:
        console.print(f"openipu: no trace: {escape(str(error))}", soft_wrap=True)
        return
    if not quiet:
        summary = summarise_trace(trace)
        parts = ", ".join(f"{entry.channel} {format_seconds(entry.self_seconds)}" for entry in summary.activities)
        console.print("\n[bold]openipu[/]  what this host did [dim](measured)[/]")
        console.print(f"  {escape(parts)}", soft_wrap=True)
        for finding in summary.findings:
            console.print(f"  {escape(finding)}", soft_wrap=True)
        console.print(f"  trace: {escape(_shorten(page))}", soft_wrap=True)


def _write_report(compiled: CompiledProgram) -> Path | None:
    """A front end may have asked for a profile of its own; the HTML is for those who used --profile."""
    if compiled.report_directory is None:
        return None
    profile = read_profile(compiled.report_directory)  # as it was written when the program was compiled
    return write_html(profile, compiled.report_directory / REPORT_NAME)


def _print_program(
    console: Console, program: CompiledProgram, count: int, report: Path | None, profile: Path | None
) -> None:
    fit, timing = program.fit, program.timing
    again = f", compiled {count:,} times" if count > 1 else ""
    console.print(
        f"\n[bold]openipu[/]  {escape(program.name)} on {escape(program.system)}{again} [dim](modelled)[/]",
        soft_wrap=True,
    )
    verdict = "[green]fits[/]" if fit.fits else "[bold red]does not fit[/]"
    console.print(
        f"  {verdict}: the fullest tile needs {format_bytes_of(fit.peak_bytes, fit.limit_bytes)}"
        + ("" if fit.fits else f"; {fit.tiles_over:,} tiles are over by {format_bytes(fit.bytes_over)} in all")
    )
    if not fit.fits:
        for culprit in fit.culprits:
            place = shorten_place(str(culprit.line or ("" if culprit.module in culprit.name else culprit.module)))
            console.print(
                f"    {format_bytes(culprit.bytes_on_tile)} {escape(culprit.name)} [dim]{escape(place)}[/]",
                soft_wrap=True,
            )
    seconds = timing.call_cycles / timing.clock_hz
    console.print(
        f"  one call: {format_cycles(timing.call_cycles)} cycles, {format_seconds(seconds)}, "
        f"{format_rate(timing.samples_per_second)} samples/s"
    )
    cycles = dict(program.cycles_by_kind)
    whole = sum(cycles.values()) or 1.0
    shares = ", ".join(f"{kind} {format_share(cycles[kind] / whole)}" for kind in KIND_ORDER if kind in cycles)
    console.print(f"  of it: {shares}; {format_share(program.guessed_share)} rests on guesses", style="dim")
    for warning in program.warnings:
        console.print(f"  [yellow]{escape(warning)}[/]", soft_wrap=True)
    if report is not None:
        console.print(f"  report: {escape(_shorten(report))}", soft_wrap=True)
    elif profile is not None:
        console.print(f"  profile: openipu report {escape(_shorten(profile))} shows it", soft_wrap=True)


def _shorten(path: Path) -> str:
    """Below the working directory a path is shown from there, else whole."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
