"""Advice for a report: what a profile keeps of it.

In: an `Advice`. Out: an `AdviceRecord`, each lever in the words of every front end.
"""

from __future__ import annotations

import math

from openipu.explore.levers.texts import describe_untried
from openipu.explore.levers.types import Advice, FrontEnd, LeverResult
from openipu.explore.levers.words import word_settings
from openipu.report import AdviceRecord, LeverRecord


def record_advice(advice: Advice, front_end: FrontEnd) -> AdviceRecord:
    """All levers with their figures; `front_end` is the one that the program was written for."""
    return AdviceRecord(
        levers=tuple(_record_lever(lever) for lever in advice.levers),
        front_end=str(front_end),
        not_tried=describe_untried(advice),
        plans_made=advice.plans_made,
        seconds=advice.seconds,
    )


def _record_lever(lever: LeverResult) -> LeverRecord:
    return LeverRecord(
        title=lever.title,
        fits=lever.fits,
        peak_tile_bytes=int(lever.plan.fit.peak_bytes),
        saved_tile_bytes=int(lever.saved_tile_bytes),
        saved_bytes=int(lever.saved_bytes),
        paid_ipu_cycles_per_sample=float(lever.paid_cycles),
        slowdown=float(lever.slowdown) if math.isfinite(lever.slowdown) else None,
        words={str(one): word_settings(lever.settings, one, lever.plan) for one in FrontEnd},
    )
