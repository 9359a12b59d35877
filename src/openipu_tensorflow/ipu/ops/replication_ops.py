"""`ipu.replication_ops`: which replica this is."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.device_ops import add_device_op


def replication_index(name: str | None = None) -> Any:
    """The number of the replica, from 0."""
    from tensorflow.python.framework import dtypes

    return add_device_op("IpuReplicationIndex", [], [(dtypes.int32, [])])[0]
