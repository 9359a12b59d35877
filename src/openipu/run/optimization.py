"""What is known of an optimization: its name, whether results may have other last bits, and which models gain from it.

A `Pass` (`drafts/passes.py`) and a `Kernel` (`kernels/kernel.py`) are such records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Accuracy(Enum):
    """How results compare with those of the operators as they were recorded."""

    SAME_BITS = "the bits of the operators"
    OTHER_ORDER = "sums in another order, or another formula: other last bits"


@dataclass(frozen=True)
class Optimization:
    """A way to run a program faster."""

    name: str
    accuracy: Accuracy = field(default=Accuracy.SAME_BITS, kw_only=True)
    gains: tuple[str, ...] = field(default=(), kw_only=True)  # workloads of `bench/gains.json`: measured there
