"""`ipu.gradient_accumulation`: how gradients of several micro-batches become one."""

from __future__ import annotations

import enum
from typing import Any


class GradientAccumulationReductionMethod(enum.Enum):
    """The sum, the mean, or a mean that is kept up to date with each micro-batch."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, method: Any) -> GradientAccumulationReductionMethod:
        """A member, or its name in upper or lower case."""
        if isinstance(method, cls):
            return method
        if isinstance(method, str) and method.upper() in cls.__members__:
            return cls[method.upper()]
        raise ValueError(
            f"Cannot parse {method} as a GradientAccumulationReductionMethod. Valid values are: "
            f"{', '.join(cls.__members__)}."
        )
