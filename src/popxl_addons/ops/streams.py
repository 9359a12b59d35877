"""A stream and its transfer in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl.streams import DeviceToHostStream, HostToDeviceStream
from popxl.tensor import HostTensor
from popxl.utils import to_numpy

__all__ = ["host_load", "host_store"]


def host_load(
    t: HostTensor, dtype: popxl.dtype, name: str
) -> tuple[np.ndarray[Any, Any], HostToDeviceStream, popxl.Tensor]:
    """The data in the stream's format, a stream for data of this shape, and the tensor that is loaded from it."""
    data = to_numpy(t, dtype=dtype)
    stream = popxl.h2d_stream(data.shape, dtype, name=f"{name}_stream")
    return data, stream, ops.host_load(stream, name)


def host_store(t: popxl.Tensor) -> DeviceToHostStream:
    """A stream that gets the tensor."""
    stream = popxl.d2h_stream(t.shape, t.dtype, name=f"{t.name}_stream")
    ops.host_store(stream, t)
    return stream
