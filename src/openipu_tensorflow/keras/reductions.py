"""How values of several replicas become one, in the words of the original."""

from __future__ import annotations

import enum
from typing import Any


class ReplicatedMetricReductionMethod(enum.Enum):
    """What is shown of metrics that each replica has computed for itself."""

    NONE = "NONE"  # of the last replica
    LIST = "LIST"  # of all of them
    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def parse(cls, value: Any) -> ReplicatedMetricReductionMethod:
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value} as a ReplicatedMetricReductionMethod. Valid values are: "
            f"{', '.join(cls.__members__)}."
        )
