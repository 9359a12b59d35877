"""Advice as plain text: a few lines for a log or an error message."""

from __future__ import annotations

from openipu.explore.levers.types import Advice, FrontEnd, LeverResult, Limit
from openipu.report.units import format_change, format_seconds, format_tile_bytes


def describe_advice(advice: Advice, front_end: FrontEnd, most: int = 5) -> str:
    """The line that makes it fit, then the levers with what they save and cost."""
    lines: list[str] = []
    best = advice.best
    if best is not None:
        lines.append(f"It would fit with {best.title}: {advice.words[front_end]}")
    elif advice.complete:
        lines.append("No lever makes it fit, nor do all of them together. Choose a larger system or a smaller model.")
    else:
        lines.append(f"No lever that was tried makes it fit. {describe_untried(advice)} `openipu plan` tries them all.")
    lines.extend(f"  {describe_lever(lever)}" for lever in advice.levers[:most])
    return "\n".join(lines)


def describe_untried(advice: Advice) -> str:
    """What was left out and why: "Not tried after 150 plans: 8 IPUs in a pipeline." Nothing where all was tried."""
    parts = []
    if advice.untried:
        spent = format_seconds(advice.seconds) if advice.stopped_by is Limit.TIME else f"{advice.plans_made} plans"
        parts.append(f"Not tried after {spent}: {', '.join(advice.untried)}.")
    if advice.unreachable:
        parts.append(f"Not tried, as it takes the model itself: {', '.join(advice.unreachable)}.")
    return " ".join(parts)


def describe_lever(lever: LeverResult) -> str:
    """One lever in one line."""
    verdict = "fits" if lever.fits else "does not fit"
    saved = lever.saved_tile_bytes
    change = f"{format_tile_bytes(abs(saved))} a tile {'saved' if saved >= 0 else 'more'}"
    return f"{lever.title}: {verdict}, {change}, {format_change(lever.slowdown)}"
