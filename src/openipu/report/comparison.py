"""Two programs, or two plans of one: the figures that changed.

In: two `Summary`s. Out: `Difference`s, and the same as text. The web report has more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from openipu.report.profile import Profile
from openipu.report.summary import Summary
from openipu.report.units import format_bytes, format_seconds


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure in both."""

    name: str
    first: float
    second: float
    unit: str  # "bytes", "seconds" or "count"

    @property
    def ratio(self) -> float | None:
        """The second of the first; None where there was nothing."""
        return self.second / self.first if self.first else None


def label_profiles(first: Profile, second: Profile, folders: tuple[Path, Path] | None = None) -> tuple[str, str]:
    """What tells two profiles apart: the folders that differ, and the systems where they do; else their names."""
    parts: list[list[str]] = [[], []]
    if folders is not None:
        for place, label in enumerate(_tell_apart(*folders)):
            parts[place] += [label] if label else []
    if first.system.name != second.system.name:
        parts[0].append(first.system.name)
        parts[1].append(second.system.name)
    if not any(parts) and first.name != second.name:
        parts = [[first.name], [second.name]]
    return ", ".join(parts[0]), ", ".join(parts[1])


def _tell_apart(first: Path, second: Path) -> tuple[str, str]:
    """The parts of two paths between what they begin and what they end with alike."""
    one, two = first.resolve().parts, second.resolve().parts
    while one and two and one[0] == two[0]:
        one, two = one[1:], two[1:]
    while one and two and one[-1] == two[-1]:
        one, two = one[:-1], two[:-1]
    return "/".join(one), "/".join(two)


def compare_summaries(first: Summary, second: Summary) -> tuple[Difference, ...]:
    """The figures that people ask for first, of both."""

    def read(name: str, unit: str, figure: Callable[[Summary], float]) -> Difference:
        return Difference(name, figure(first), figure(second), unit)

    kinds = list(dict.fromkeys(entry.name for summary in (first, second) for entry in summary.kinds))
    found = (
        read("fullest tile", "bytes", lambda summary: summary.fit.peak_bytes),
        read("all tiles", "bytes", lambda summary: summary.fit.needed_bytes),
        read("tiles over the limit", "count", lambda summary: summary.fit.tiles_over),
        read("micro-batch", "seconds", lambda summary: summary.timing.micro_cycles / summary.timing.clock_hz),
        read("weight update", "seconds", lambda summary: summary.timing.update_cycles / summary.timing.clock_hz),
        read("call", "seconds", lambda summary: summary.timing.call_cycles / summary.timing.clock_hz),
        read("samples a second", "count", lambda summary: summary.timing.samples_per_second),
        *(
            Difference(f"of a call: {kind}", _time_kind(first, kind), _time_kind(second, kind), "seconds")
            for kind in kinds
        ),
        read("ops", "count", lambda summary: summary.op_count),
        read("steps", "count", lambda summary: summary.step_count),
        read("variables", "count", lambda summary: summary.variable_count),
    )
    return tuple(entry for entry in found if entry.first or entry.second)


def render_comparison(first: Summary, second: Summary) -> str:
    """A table of both with the change, ending with a newline."""
    formats: dict[str, Callable[[float], str]] = {
        "bytes": format_bytes,
        "seconds": format_seconds,
        "count": lambda count: f"{count:,.0f}",
    }
    rows = [("", "A", "B", "B against A")]
    for entry in compare_summaries(first, second):
        write = formats[entry.unit]
        change = "new" if entry.ratio is None else "same" if entry.ratio == 1 else f"{(entry.ratio - 1) * 100:+.1f} %"
        rows.append((entry.name, write(entry.first), write(entry.second), change))
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = [
        "  ".join(cell.ljust(width) if not place else cell.rjust(width) for place, (cell, width) in pairs)
        for pairs in (list(enumerate(zip(row, widths, strict=True))) for row in rows)
    ]
    return "\n".join([f"A: {first.name}", f"B: {second.name}", "", *lines]) + "\n"


def _time_kind(summary: Summary, kind: str) -> float:
    cycles = sum(entry.call_cycles for entry in summary.kinds if entry.name == kind)
    return cycles / summary.timing.clock_hz
