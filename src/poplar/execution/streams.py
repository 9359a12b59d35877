"""What a program exchanges with the host by name: streams, remote buffers, functions.

In: handles, types, sizes. Out: objects that programs copy from and to, and the callbacks behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped import ElementType, StreamKind


class ReplicatedStreamMode(Enum):
    """What replicas get of a stream to the device: each its own data, or all the same."""

    REPLICATE = 0
    BROADCAST = 1


@dataclass(frozen=True, slots=True, eq=False)
class DataStream:
    """A FIFO between host and device."""

    number: int
    handle_: str
    kind: StreamKind
    type: ElementType
    elements: int
    mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE

    def handle(self) -> str:
        return self.handle_

    def numElements(self) -> int:
        return self.elements

    def elementType(self) -> ElementType:
        return self.type


@dataclass(frozen=True, slots=True, eq=False)
class RemoteBuffer:
    """Memory outside of the IPU, as rows."""

    number: int
    handle_: str
    type: ElementType
    elements: int
    repeats: int

    def handle(self) -> str:
        return self.handle_

    def numElements(self) -> int:
        return self.elements

    def getRepeats(self) -> int:
        return self.repeats

    def elementType(self) -> ElementType:
        return self.type


@dataclass(frozen=True, slots=True)
class HostFunctionArgument:
    """One tensor that goes to a host function, or comes from it."""

    type: ElementType
    numElements: int


@dataclass(frozen=True, slots=True, eq=False)
class HostFunction:
    """A function of the host that a program can call."""

    number: int
    handle_: str
    inputs: tuple[HostFunctionArgument, ...]
    outputs: tuple[HostFunctionArgument, ...]

    def handle(self) -> str:
        return self.handle_


class StreamCallback:
    """To be subclassed. `fetch` fills or takes a buffer; `prefetch` may be asked for one in advance."""

    class Result(Enum):
        Success = 0
        NotAvailable = 1

    def prefetch(self, buffer: npt.NDArray[Any]) -> Result:
        return StreamCallback.Result.NotAvailable

    def fetch(self, buffer: npt.NDArray[Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no fetch(buffer).")

    def complete(self) -> None:
        """The data of the last fetch or prefetch are on the device."""

    def invalidatePrefetched(self) -> None:
        """What was fetched in advance will not be used."""


class FunctionCallback(StreamCallback):
    """A plain function of the buffer as a callback."""

    def __init__(self, function: Callable[[npt.NDArray[Any]], Any]) -> None:
        self._function = function

    def fetch(self, buffer: npt.NDArray[Any]) -> None:
        made = self._function(buffer)
        if made is not None:
            buffer[...] = np.asarray(made).reshape(buffer.shape)


class HostCallback:
    """To be subclassed: a host function as an object."""

    def call(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no call(inputs, outputs).")
