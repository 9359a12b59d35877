"""Micro-batches as a batch: a graph of one micro-batch becomes one of several."""

from openipu.run.rewrites.micro_batches.batch import Batched, batch_draft
from openipu.run.rewrites.micro_batches.checks import NotBatchable
from openipu.run.rewrites.micro_batches.memory import choose_factor, estimate_batched_bytes, estimate_peak_bytes

__all__ = ["Batched", "NotBatchable", "batch_draft", "choose_factor", "estimate_batched_bytes", "estimate_peak_bytes"]
