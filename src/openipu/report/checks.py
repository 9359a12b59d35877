"""Conditions on a profile, for tests and continuous integration: `peak_tile_bytes<600kB`.

In: a condition as text, and a `Profile`; for limits such as `1.05x`, a second one that they are multiples of. Out: a
`CheckResult` that says what was found and whether it holds. A text that cannot be read is an `OptionError` that says
what would be possible.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from openipu.errors import OptionError
from openipu.report.profile import Profile
from openipu.report.summary import Summary, summarise
from openipu.report.units import format_bytes, format_seconds


class Quantity(StrEnum):
    """What kind of number a figure is; it says which units a limit may have."""

    BYTES = "bytes"
    SECONDS = "time"
    SHARE = "share"
    COUNT = "count"


UNITS: Mapping[Quantity, Mapping[str, float]] = {
    Quantity.BYTES: {"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
    | {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3},
    Quantity.SECONDS: {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60},
    Quantity.SHARE: {"": 1, "%": 0.01},
    Quantity.COUNT: {"": 1, "k": 1e3, "M": 1e6, "G": 1e9},
}
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
FIGURES: Mapping[str, tuple[Quantity, str, Callable[[Summary], float]]] = {
    "fits": (Quantity.COUNT, "1 if every tile has room, else 0", lambda s: s.fit.fits),
    "peak_tile_bytes": (Quantity.BYTES, "the fullest tile at its worst step", lambda s: s.fit.peak_bytes),
    "free_tile_bytes": (
        Quantity.BYTES,
        "room on the fullest tile; negative if it is over",
        lambda s: s.fit.limit_bytes - s.fit.peak_bytes,
    ),
    "needed_bytes": (Quantity.BYTES, "all tiles, each at its worst step", lambda s: s.fit.needed_bytes),
    "bytes_over": (Quantity.BYTES, "what does not fit, over all tiles", lambda s: s.fit.bytes_over),
    "tiles_over": (Quantity.COUNT, "tiles without room", lambda s: s.fit.tiles_over),
    "call_cycles": (Quantity.COUNT, "one call", lambda s: s.timing.call_cycles),
    "micro_cycles": (Quantity.COUNT, "one micro-batch, or a steady tick", lambda s: s.timing.micro_cycles),
    "update_cycles": (Quantity.COUNT, "one weight update", lambda s: s.timing.update_cycles),
    "call_seconds": (Quantity.SECONDS, "one call", lambda s: s.timing.call_cycles / s.timing.clock_hz),
    "micro_seconds": (Quantity.SECONDS, "one micro-batch", lambda s: s.timing.micro_cycles / s.timing.clock_hz),
    "update_seconds": (Quantity.SECONDS, "one weight update", lambda s: s.timing.update_cycles / s.timing.clock_hz),
    "samples_per_second": (Quantity.COUNT, "throughput of all replicas", lambda s: s.timing.samples_per_second),
    "compute_share": (Quantity.SHARE, "of busy cycles", lambda s: _share(s, "compute")),
    "exchange_share": (Quantity.SHARE, "of busy cycles", lambda s: _share(s, "exchange")),
    "sync_share": (Quantity.SHARE, "of busy cycles", lambda s: _share(s, "sync")),
    "host_share": (Quantity.SHARE, "of busy cycles", lambda s: _share(s, "host")),
    "link_share": (Quantity.SHARE, "of busy cycles", lambda s: _share(s, "link")),
    "bubble_share": (
        Quantity.SHARE,
        "of the IPUs' time in a pipeline; 0 without one",
        lambda s: s.pipeline.bubble_share if s.pipeline else 0.0,
    ),
    "guessed_share": (Quantity.SHARE, "of cycles that rest on guesses", lambda s: s.guessed_share),
    "steps": (Quantity.COUNT, "BSP steps", lambda s: s.step_count),
    "ops": (Quantity.COUNT, "ops of the graph", lambda s: s.op_count),
    "ipus": (Quantity.COUNT, "IPUs of one replica", lambda s: s.ipus_per_replica),
    "planning_seconds": (Quantity.SECONDS, "measured on the host that planned", lambda s: s.planning_seconds),
}

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|==|!=|<|>|=)\s*(-?[\d_.]+(?:[eE][+-]?\d+)?)\s*([^\d\s]*)\s*")


@dataclass(frozen=True, slots=True)
class Check:
    """One condition: a figure, a comparison and a limit, in the figure's base unit or as a multiple of another's."""

    figure: str
    comparison: str
    limit: float
    relative: bool = False

    def apply(self, summary: Summary, other: Summary | None = None) -> CheckResult:
        measure = FIGURES[self.figure][2]
        value, limit = float(measure(summary)), self.limit
        if self.relative:
            if other is None:
                raise OptionError(
                    f"The check {self.figure}{self.comparison}{self.limit:g}x compares two profiles: name the second "
                    "one, or give a limit with a unit."
                )
            limit *= float(measure(other))
        return CheckResult(self, value, limit, COMPARISONS[self.comparison](value, limit))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a profile has, and whether the condition holds."""

    check: Check
    value: float
    limit: float
    holds: bool

    def __str__(self) -> str:
        quantity = FIGURES[self.check.figure][0]
        value, limit = _format(quantity, self.value), _format(quantity, self.limit)
        if self.check.relative:
            limit = f"{self.check.limit:g} x {_format(quantity, self.limit / (self.check.limit or 1))}"
        if self.holds:
            return f"ok: {self.check.figure} is {value}, wanted {self.check.comparison} {limit}"
        return f"FAILED: {self.check.figure} is {value}, wanted {self.check.comparison} {limit}"


def read_check(text: str) -> Check:
    """Read one condition. `fits` alone means that it does."""
    if text.strip() == "fits":
        return Check("fits", "==", 1.0)
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise OptionError(
            f"The check {text!r} cannot be read. Write a figure, a comparison and a limit, such as "
            "'peak_tile_bytes<600kB', 'samples_per_second>=1000' or 'fits'."
        )
    figure, comparison, number, unit = found.groups()
    if figure not in FIGURES:
        near = difflib.get_close_matches(figure, FIGURES, 1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise OptionError(f"There is no figure {figure!r} to check. {meant}There are {', '.join(FIGURES)}.")
    units = {**UNITS[FIGURES[figure][0]], "x": 1.0}
    if unit not in units:
        known = ", ".join(name for name in units if name) or "none"
        raise OptionError(f"The check {text!r} has the unit {unit!r}; units of {figure} are {known}.")
    try:
        limit = float(number) * units[unit]
    except ValueError:
        raise OptionError(f"The check {text!r} has no number after {comparison}: {number!r}.") from None
    return Check(figure, "==" if comparison == "=" else comparison, limit, relative=unit == "x")


def check_profile(profile: Profile, checks: Sequence[Check], other: Profile | None = None) -> list[CheckResult]:
    """Apply conditions to a profile; those with relative limits compare it with the other one."""
    summary = summarise(profile)
    second = None if other is None else summarise(other)
    return [check.apply(summary, second) for check in checks]


def _share(summary: Summary, kind: str) -> float:
    return next((entry.share for entry in summary.kinds if entry.name == kind), 0.0)


def _format(quantity: Quantity, value: float) -> str:
    if quantity is Quantity.BYTES:
        return f"{value:,.0f} bytes ({format_bytes(value)})"
    if quantity is Quantity.SECONDS:
        return format_seconds(value)
    if quantity is Quantity.SHARE:
        return f"{value * 100:.4g} %"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.4g}"
