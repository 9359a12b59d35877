"""Micro-batch folding: a graph of one micro-batch becomes one of several."""

from openipu.run.rewrites.micro_batches.checks import NotFoldable
from openipu.run.rewrites.micro_batches.fold import Folded, fold_draft
from openipu.run.rewrites.micro_batches.memory import choose_factor, estimate_folded_bytes, estimate_peak_bytes

__all__ = ["Folded", "NotFoldable", "choose_factor", "estimate_folded_bytes", "estimate_peak_bytes", "fold_draft"]
