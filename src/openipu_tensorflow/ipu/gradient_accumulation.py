"""`ipu.gradient_accumulation`: how gradients of several micro-batches become one."""

from __future__ import annotations

from enum import Enum
from typing import Any

from openipu.graph import Reduction


class GradientAccumulationReductionMethod(Enum):
    """The sum, the mean, or a mean that is right at any time, so that no sum overflows."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, reduction_method: Any) -> GradientAccumulationReductionMethod:
        """A method by its name, in any case."""
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str) and reduction_method.upper() in cls.__members__:
            return cls[reduction_method.upper()]
        raise ValueError(
            f"Cannot parse {reduction_method} as one of GradientAccumulationReductionMethod. Valid values are: "
            f"{', '.join(cls.__members__)}."
        )

    @property
    def reduction(self) -> Reduction:
        """The core's name for it."""
        return Reduction[self.name]
