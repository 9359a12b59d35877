"""Whether products prepare transposed weights for backward. A choice of memory layout, which no result depends on."""

from __future__ import annotations

import popxl

__all__ = ["disable_fc_pass", "enable_fc_pass"]


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Accepted: plans do not keep transposed copies of weights for inference."""


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Accepted: the default again."""
