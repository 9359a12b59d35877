"""The host's side of streams and host functions, where the host is a C++ program.

In: what a run reads and writes. Out: questions and notices to the program, whose buffers and callbacks stay there.
Transfers from a buffer come several at once; what was not used is forgotten when a run ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from poplar.execution.streams import HostCallback, StreamCallback
from poplar.server.channel import Channel

_AHEAD_BYTES = 1 << 20
Buffer = npt.NDArray[Any]


class RemoteRing(StreamCallback):
    """A buffer of the program, as a ring or from its beginning each time."""

    def __init__(self, channel: Channel, engine: int, handle: str, *, outward: bool) -> None:
        self._channel = channel
        self._engine = engine
        self._handle = handle
        self._outward = outward
        self._position = 0
        self._ahead = b""
        self._used = 0
        self._welcome = 1

    def fetch(self, buffer: Buffer) -> None:
        size = buffer.nbytes
        if self._outward:
            content = np.ascontiguousarray(buffer).tobytes()
            self._channel.tell("put", self._engine, self._handle, 0, self._position, content)
        else:
            if self._used + size > len(self._ahead):
                self._ahead = self._channel.ask(
                    "take", self._engine, self._handle, 0, self._position, size, self._welcome
                )
                self._used = 0
                self._welcome = min(self._welcome * 2, max(1, _AHEAD_BYTES // max(1, size)))
            part = self._ahead[self._used : self._used + size]
            buffer.reshape(-1)[...] = np.frombuffer(part, dtype=buffer.dtype)
            self._used += size
        self._position += 1

    def forget(self) -> None:
        """The program may change its buffer now."""
        self._ahead, self._used, self._welcome = b"", 0, 1


class RemoteCallback(StreamCallback):
    """A callback of the program."""

    def __init__(self, channel: Channel, engine: int, handle: str, replica: int, *, outward: bool) -> None:
        self._channel = channel
        self._place = (engine, handle, replica)
        self._outward = outward

    def fetch(self, buffer: Buffer) -> None:
        if self._outward:
            self._channel.tell("drain", *self._place, np.ascontiguousarray(buffer).tobytes())
            return
        _, content = self._channel.ask("fetch", *self._place, buffer.nbytes)
        buffer.reshape(-1)[...] = np.frombuffer(content, dtype=buffer.dtype)

    def prefetch(self, buffer: Buffer) -> StreamCallback.Result:
        good, content = self._channel.ask("prefetch", *self._place, buffer.nbytes)
        if not good:
            return StreamCallback.Result.NotAvailable
        buffer.reshape(-1)[...] = np.frombuffer(content, dtype=buffer.dtype)
        return StreamCallback.Result.Success

    def complete(self) -> None:
        self._channel.tell("complete", *self._place)

    def invalidatePrefetched(self) -> None:
        self._channel.tell("invalidate", *self._place)


class RemoteFunction(HostCallback):
    """A host function of the program."""

    def __init__(self, channel: Channel, engine: int, handle: str, replica: int) -> None:
        self._channel = channel
        self._place = (engine, handle, replica)

    def call(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        sizes = np.array([output.nbytes for output in outputs], dtype=np.int64)
        contents = [np.ascontiguousarray(one).tobytes() for one in inputs]
        for output, content in zip(outputs, self._channel.ask("call", *self._place, contents, sizes), strict=True):
            output.reshape(-1)[...] = np.frombuffer(content, dtype=output.dtype)


class RemotePrinter:
    """What PrintTensor writes, on its way to the program's stream."""

    def __init__(self, channel: Channel, engine: int) -> None:
        self._channel = channel
        self._engine = engine

    def write(self, text: str) -> int:
        self._channel.tell("print", self._engine, text)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""
