"""Pulls levers together where none is enough by itself.

In: what each lever did alone, and a way to plan several. Out: the combination that fits, or saves more than each of its
members; nothing where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openipu.explore.levers.types import LeverKind, LeverResult, Setting

Try = Callable[[Sequence[Setting]], LeverResult | None]

_EXCLUDE = (  # the second does what the first does, or undoes it
    {LeverKind.SHARED_STATE, LeverKind.STATE_OFF_CHIP},
    {LeverKind.RECOMPUTE, LeverKind.CHECKPOINTS},
)
_CHOSEN_BY_SPLIT = {  # a search for a pipeline tries these itself
    LeverKind.SHARED_STATE,
    LeverKind.STATE_OFF_CHIP,
    LeverKind.RECOMPUTE,
    LeverKind.CHECKPOINTS,
}


def combine_levers(single: Sequence[LeverResult], attempt: Try) -> LeverResult | None:
    """Levers on the same IPUs first; if those are not enough, more IPUs with whatever saves beside them."""
    useful = sorted((result for result in single if result.saved_tile_bytes > 0), key=_count_saved, reverse=True)
    wider = [result for result in useful if _kind(result) is LeverKind.MORE_IPUS]
    others = [result for result in useful if result not in wider]
    found = [_pile_up(others, attempt)] if others else []
    if wider and not any(result.fits for result in found):
        found.append(_pile_up([*wider, *(one for one in others if _kind(one) not in _CHOSEN_BY_SPLIT)], attempt))
    found = [result for result in found if len(result.settings) > 1]
    if not found:
        return None
    best = max(found, key=lambda result: (result.fits, result.saved_tile_bytes))
    if best.fits:
        return _let_go(best, attempt)
    kinds = {setting.kind for setting in best.settings}
    members = [result for result in single if _kind(result) in kinds]
    return best if best.saved_tile_bytes > max(map(_count_saved, members)) else None


def _pile_up(results: Sequence[LeverResult], attempt: Try) -> LeverResult:
    """From the first on, add each that saves something beside those before it, until it fits."""
    best = results[0]
    for result in results[1:]:
        pulled = {setting.kind for setting in best.settings}
        if best.fits or any(_kind(result) in pair and pair & pulled for pair in _EXCLUDE):
            continue
        tried = attempt((*best.settings, *result.settings))
        if tried is not None and (tried.fits or tried.saved_tile_bytes > best.saved_tile_bytes):
            best = tried
    return best


def _let_go(best: LeverResult, attempt: Try) -> LeverResult:
    """Without the settings that it does not take to fit."""
    for setting in best.settings:
        fewer = tuple(entry for entry in best.settings if entry.kind is not setting.kind)
        if not fewer:
            break
        tried = attempt(fewer)
        if tried is not None and tried.fits:
            best = tried
    return best


def _kind(result: LeverResult) -> LeverKind:
    return result.settings[0].kind


def _count_saved(result: LeverResult) -> int:
    return result.saved_tile_bytes
