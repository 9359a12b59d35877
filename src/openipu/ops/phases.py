"""Cycles of an op with the launch of its exchange phases.

In: an `OpCost`, whose steps leave syncs out, and the target. Out: cycles as a program pays them.
"""

from __future__ import annotations

from openipu.machine import Target
from openipu.ops.cost import OpCost, StepKind


def count_exchange_phases(cost: OpCost) -> int:
    """Exchange phases of one execution, each repetition counted."""
    return sum(step.repeats for step in cost.steps if step.kind is StepKind.EXCHANGE)


def total_cycles(cost: OpCost, target: Target) -> float:
    """All steps, and one launch (sync included) before every exchange phase."""
    return cost.cycles + target.phase_launch_cycles * count_exchange_phases(cost)
