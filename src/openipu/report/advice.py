"""What was planned again for a program that does not fit: each lever with what it saves and costs.

In: nothing but numbers and strings, from a search for levers or from a file. Out: frozen dataclasses, and the sentences
that every report says of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openipu.report.units import format_change, format_cycles, format_tile_bytes

NOT_PLANNED = "No lever was planned again; `openipu plan --profile` does, and says what each one saves and costs."
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class LeverRecord:
    """One setting, or several together, and what the plan with them needs."""

    title: str
    fits: bool
    peak_tile_bytes: int
    saved_tile_bytes: int  # on the fullest tile; negative where it needs more
    saved_bytes: int  # over the tiles of one replica, each at its own worst step
    paid_ipu_cycles_per_sample: float
    slowdown: float | None  # time for a sample against the plan before; None: no sample comes out
    words: Mapping[str, str]  # front end -> the line that makes the setting


@dataclass(frozen=True, slots=True)
class AdviceRecord:
    """All levers that were planned, the best first."""

    levers: tuple[LeverRecord, ...]
    front_end: str  # in whose words the program was written
    not_tried: str  # what was left out and why; empty where everything was tried
    plans_made: int
    seconds: float

    @property
    def best(self) -> LeverRecord | None:
        """The lever to pull: the first one, if it makes the program fit."""
        return self.levers[0] if self.levers and self.levers[0].fits else None

    @property
    def verdict(self) -> str:
        """What to do, in a sentence or two."""
        best = self.best
        if best is not None:
            line = best.words.get(self.front_end, "")
            return f"It fits with {best.title}, {_tell_change(best)}{f': {line}' if line else '.'}"
        left_out = f" {self.not_tried}" if self.not_tried else ""
        closest = self._closest
        nearest = (
            f" {closest.title} comes closest, with {format_tile_bytes(closest.peak_tile_bytes)} on the fullest tile."
            if closest is not None
            else ""
        )
        return f"Nothing that was planned makes it fit.{nearest}{left_out} Choose a larger system, or a smaller model."

    @property
    def _closest(self) -> LeverRecord | None:
        useful = [lever for lever in self.levers if lever.saved_tile_bytes > 0]
        return min(useful, key=lambda lever: lever.peak_tile_bytes, default=None)

    def describe(self) -> dict[str, Any]:
        """Plain data, for JSON and for the page."""
        return {
            "verdict": self.verdict,
            "front_end": self.front_end,
            "not_tried": self.not_tried,
            "plans_made": self.plans_made,
            "seconds": self.seconds,
            "levers": [
                {
                    "lever": lever.title,
                    "fits": lever.fits,
                    "peak_tile_bytes": lever.peak_tile_bytes,
                    "saved_tile_bytes": lever.saved_tile_bytes,
                    "saved_bytes": lever.saved_bytes,
                    "paid_ipu_cycles_per_sample": lever.paid_ipu_cycles_per_sample,
                    "slowdown": lever.slowdown,
                    "change": _tell_change(lever),
                    "words": dict(lever.words),
                }
                for lever in self.levers
            ],
        }


def render_advice(advice: AdviceRecord) -> str:
    """The levers as lines for a terminal, ending with a newline."""
    lines = ["Planned again with"]
    for lever in advice.levers:
        saved = lever.saved_tile_bytes
        text = (
            f"{lever.title}: {'fits' if lever.fits else 'does not fit'}, {format_tile_bytes(lever.peak_tile_bytes)} on "
            f"the fullest tile ({format_tile_bytes(abs(saved))} {'less' if saved >= 0 else 'more'}), "
            f"{'+' if lever.paid_ipu_cycles_per_sample >= 0 else '-'}"
            f"{format_cycles(abs(lever.paid_ipu_cycles_per_sample))} IPU cycles a sample, {_tell_change(lever)}"
        )
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    if advice.not_tried:
        lines += textwrap.wrap(advice.not_tried, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines) + "\n"


def _tell_change(lever: LeverRecord) -> str:
    return "without an end" if lever.slowdown is None else format_change(lever.slowdown)
