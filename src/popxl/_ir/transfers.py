"""Ops that move data between the device, the host and the memory beside the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from popxl._ir.operation import Op

if TYPE_CHECKING:
    from popxl.remote_buffer import RemoteBuffer
    from popxl.streams import DeviceToHostStream, HostToDeviceStream


@dataclass(eq=False)
class HostLoadOp(Op):
    """Takes the next transfer of a stream."""

    stream: HostToDeviceStream = None  # type: ignore[assignment]


@dataclass(eq=False)
class HostStoreOp(Op):
    """Gives the next transfer of a stream."""

    stream: DeviceToHostStream = None  # type: ignore[assignment]


@dataclass(eq=False)
class RemoteLoadOp(Op):
    """Reads an entry of a remote buffer. Inputs: the offset, and the tensor to write it to, if it is given."""

    buffer: RemoteBuffer = None  # type: ignore[assignment]


@dataclass(eq=False)
class RemoteStoreOp(Op):
    """Writes an entry of a remote buffer. Inputs: the tensor, the offset."""

    buffer: RemoteBuffer = None  # type: ignore[assignment]
