"""Patterns of PopART's compiler by the name that applications import."""

from __future__ import annotations

from typing import Literal

import popxl

__all__ = ["apply_pre_alias_patterns"]

LEVELS = ("no_patterns", "minimal", "default", "all")


def apply_pre_alias_patterns(
    ir: popxl.Ir, level: Literal["no_patterns", "minimal", "default", "all"] = "default"
) -> None:
    """Nothing is left to do: no op of this implementation needs a pattern before it can run. The level is checked."""
    if level not in LEVELS:
        raise KeyError(level)
