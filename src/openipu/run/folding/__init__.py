"""Micro-batch folding: a graph of one micro-batch becomes one of several."""

from openipu.run.folding.checks import NotFoldable
from openipu.run.folding.fold import Folded, fold_draft
from openipu.run.folding.memory import choose_factor, estimate_folded_bytes, estimate_peak_bytes

__all__ = ["Folded", "NotFoldable", "choose_factor", "estimate_folded_bytes", "estimate_peak_bytes", "fold_draft"]
