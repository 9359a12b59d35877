"""Plans of programs whose tensors and vertices a user placed on tiles."""

from openipu.plan.mapped.planner import plan_mapped, price_leaves

__all__ = [
    "plan_mapped",
    "price_leaves",
]
