"""Levers for a program that does not fit, as a report keeps them."""

from __future__ import annotations

from plan_factory import make_oversized_plan

from openipu.report import AdviceRecord, LeverRecord, Profile, build_profile

FRONT_ENDS = ("openipu", "poptorch", "optimum.graphcore", "lightning")
NOT_TRIED = "Not tried, as it takes the model itself: half precision, micro-batch."


def make_lever(title: str, peak_kib: int, *, fits: bool, paid: float, slowdown: float | None) -> LeverRecord:
    """A lever on a program whose fullest tile needs 900 KiB of 589."""
    saved = (900 - peak_kib) * 1024
    words = {name: f'{name}.set("{title}")' for name in FRONT_ENDS}
    return LeverRecord(title, fits, peak_kib * 1024, saved, saved * 1472, paid, slowdown, words)


def make_advice(*, fits: bool = True, front_end: str = "poptorch") -> AdviceRecord:
    """Three levers, of which the first fits or none does."""
    levers = (
        make_lever("recomputation", 500 if fits else 700, fits=fits, paid=1_250.0, slowdown=1.25),
        make_lever("optimizer state off chip", 820, fits=False, paid=90_000.0, slowdown=53.0),
        make_lever("half partials", 910, fits=False, paid=-0.2, slowdown=None),
    )
    return AdviceRecord(levers, front_end, NOT_TRIED, 17, 2.5)


def make_oversized_profile(advice: AdviceRecord | None) -> Profile:
    """A program that does not fit, with what was planned again for it."""
    return build_profile(make_oversized_plan(), advice)
