"""`ipu.replication_ops`: which replica this is."""

from __future__ import annotations

from typing import Any

import numpy

from openipu_tensorflow.ipu.clusters.collectives import add_collective


def replication_index(name: str | None = None) -> Any:
    """The number of the replica, from 0."""
    from tensorflow.python.framework import constant_op, dtypes

    def number(values: list[Any]) -> list[Any]:
        return [numpy.int32(place) for place in range(len(values))]

    zero = constant_op.constant(0, dtypes.int32)
    return add_collective([zero], [()], [dtypes.int32], number)[0]
