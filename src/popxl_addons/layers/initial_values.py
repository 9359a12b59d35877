"""Random initial weights."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["truncated_normal"]

LIMIT = 2.0  # in standard deviations


def truncated_normal(shape: tuple[int, ...], scale: float = 0.02) -> np.ndarray[Any, Any]:
    """Normal values, drawn again where they are more than two deviations from zero, by the generator users seed."""
    values = np.random.standard_normal(shape)
    while (outside := np.abs(values) > LIMIT).any():
        values[outside] = np.random.standard_normal(int(outside.sum()))
    return values * scale
