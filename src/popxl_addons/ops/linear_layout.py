"""Another mapping to tiles."""

from __future__ import annotations

import popxl
from popxl import ops

__all__ = ["linear_layout"]


def linear_layout(t: popxl.Tensor, bs: int = 1) -> popxl.Tensor:
    """The same values. The original maps them to tiles anew, ``bs`` at a time; here the planner places each tensor."""
    return ops.identity(t)
