"""A plan, a profile or findings in a few lines: what a prompt and a failed test show of them.

In: a `Plan` or a `Profile`, which name their figures alike, or a `Finding`. Out: short lines, without a newline at the
end. All else is in the report: `render_text`, `_repr_html_` and the command line have it.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from openipu.report.units import format_cycles, format_probability, format_rate, format_share, format_tile_bytes

if TYPE_CHECKING:
    from openipu.plan.types import Plan
    from openipu.report.insights.finding import Finding
    from openipu.report.profile import Profile

_WIDTH = 110
_NAMED = 3  # pieces of evidence


def describe_program(program: Plan | Profile) -> str:
    """Whose it is, whether it fits, how quick it is, and how much of it there is."""
    fit, timing = program.fit, program.timing
    replicas = int(_read_option(program.options, "replicas"))
    kind = "training" if _read_option(program.options, "training") else "inference"
    ipus = _count(len(program.memory), "IPU") + (f" x {replicas} replicas" if replicas > 1 else "")
    peak = f"{format_tile_bytes(fit.peak_bytes)} of {format_tile_bytes(fit.limit_bytes)}"
    verdict = "fits" if fit.fits else f"does not fit ({_count(fit.tiles_over, 'tile')} over the limit)"
    chance = format_probability(fit.probability)
    lines = [
        f"{type(program).__name__} of {program.name}: {kind} on {program.system.name}, {ipus}",
        f"  {verdict}, its fullest tile needs {peak}; probability that it fits a real IPU: {chance}",
        f"  {format_rate(timing.samples_per_second)} samples/s, {format_cycles(timing.call_cycles)} cycles a call"
        f" (modelled; {format_share(timing.guessed_cycles / timing.call_cycles if timing.call_cycles else 0)} guessed)",
        f"  {_count(len(program.ops), 'op')}, {_count(_count_steps(program.steps), 'step')}, "
        f"{_count(len(program.variables), 'variable')}",
    ]
    if program.warnings:
        lines.append(textwrap.shorten(f"  {_count(len(program.warnings), 'warning')}: {program.warnings[0]}", _WIDTH))
    return "\n".join(lines)


def describe_finding(finding: Finding) -> str:
    """What was found, why it is so, what to do, and the first things that it rests on."""
    texts = [text for text in (finding.cause, f"-> {finding.remedy}", _name_evidence(finding)) if text]
    details = [f"  {textwrap.shorten(text, 2 * _WIDTH, placeholder=' …')}" for text in texts]
    return "\n".join([f"Finding: {finding.level} ({finding.topic}): {finding.title}", *details])


def list_findings_as_html(findings: Iterable[Finding]) -> str:
    """For a notebook: one entry per finding."""
    entries = [
        f"<li><b>{html.escape(finding.level)}: {html.escape(finding.title)}</b><br>{html.escape(finding.cause)}<br>"
        f"&rarr; {html.escape(finding.remedy)}</li>"
        for finding in findings
    ]
    return f"<ul>{''.join(entries)}</ul>" if entries else "<p>Nothing was found.</p>"


def _name_evidence(finding: Finding) -> str:
    named = [f"{evidence.name}: {evidence.figure}" for evidence in finding.evidence[:_NAMED]]
    more = len(finding.evidence) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _read_option(options: Any, name: str) -> Any:
    return options.get(name, 0) if isinstance(options, Mapping) else getattr(options, name)


def _count_steps(steps: Any) -> int:
    return len(steps.kind if hasattr(steps, "kind") else steps)  # a profile keeps columns


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
