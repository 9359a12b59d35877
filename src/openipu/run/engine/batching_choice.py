"""How many micro-batches run as one.

In: a program's draft of one micro-batch and the options. Out: a divisor of the micro-batches between two updates (or,
for inference, of those of a call) such that memory stays near to what a plain loop in PyTorch takes.
"""

from __future__ import annotations

import logging

from openipu.graph import InputKind, Program, RunOptions
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.micro_batches import Batched, batch_draft, choose_factor, estimate_peak_bytes

SLACK = 0.15  # memory on top of the plain loop's
FREE_BYTES = 128 << 20  # nobody minds so much

_logger = logging.getLogger("openipu")


def choose_batching(program: Program, draft: Draft, options: RunOptions) -> int:
    """1: one after the other."""
    if not options.batching or options.taps or options.floating_point_exceptions or options.replica_groups:
        return 1
    if options.loss_scale_control is not None or options.continuous:
        return 1
    batches = options.micro_batches
    if options.training:
        batches //= options.device_iterations
    if batches == 1:
        return 1
    weights = sum(entry.shape_bytes for entry in program.micro.inputs_of(InputKind.PARAMETER))
    state = sum(slot.shape_bytes for slot in program.state_slots)
    gradients = weights if program.training else 0
    activations = estimate_peak_bytes(draft, keep_gradients=False)
    budget = max(int(SLACK * (weights + gradients + state)) + activations, FREE_BYTES)
    # With all micro-batches in one call no accumulators are needed.
    if choose_factor(draft, batches, budget + gradients, keep_gradients=False) == batches:
        return batches
    return choose_factor(draft, batches, budget, keep_gradients=False)


def apply_batching(draft: Draft, factor: int) -> Draft | None:
    """The draft of so many micro-batches; None if they must run one after the other."""
    if factor == 1:
        return draft
    batched = batch_draft(draft, factor)
    if isinstance(batched, Batched):
        return batched.draft
    _logger.debug("Micro-batches run one after the other: %s", batched.reason)
    return None
