"""What it costs to load from the memory beside an IPU, or to store there.

In: a site with the tensor that moves. Out: its bytes at the machine's rate. The planner writes such sites itself: for
tensors that are kept off chip, and for entries of remote buffers, also inside of loops.
"""

from __future__ import annotations

from openipu.machine import Provenance, Target
from openipu.ops.cost import CostContext, CostStep, Family, OpCost, OpSite, Placement, StepKind

LOAD = "openipu.load_from_streaming_memory"
STORE = "openipu.store_to_streaming_memory"
TRANSFERS = {LOAD: "load from streaming memory", STORE: "store to streaming memory"}


def cost_transfer(site: OpSite, context: CostContext) -> OpCost:
    """The tensor that the site names, once."""
    moved_bytes = sum(operand.bytes for operand in site.operands)
    return cost_streaming(site.op, moved_bytes, context.streaming_bytes_per_second, context.target)


def cost_streaming(how: str, moved_bytes: int, bytes_per_second: float, target: Target) -> OpCost:
    """So many bytes, one way."""
    cycles = moved_bytes / bytes_per_second * target.clock_hz
    step = CostStep(StepKind.HOST, TRANSFERS[how], cycles, target.tiles, moved_bytes=moved_bytes)
    return OpCost(
        Family.TRANSFER, (step,), Placement.LINEAR, provenance=Provenance.DERIVED, basis="bytes over the link"
    )
