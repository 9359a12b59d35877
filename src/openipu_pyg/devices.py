"""Where a tensor lies. In: a tensor. Out: whether its values can be looked at."""

from __future__ import annotations

from typing import Any


def is_on_ipu(tensor: Any) -> bool:
    """Is a static graph for an IPU being made of it? Then it has a shape, and no values."""
    return bool(tensor.device.type == "ipu")
