"""What a graph and its virtual graphs share, and its connections to the host.

In: handles, types, sizes. Out: streams, remote buffers, functions, by handle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openipu.graph.mapped import ELEMENT_TYPES, ElementType, LibraryOp, StreamKind
from poplar import program as programs
from poplar._errors import poplar_error, type_error
from poplar._estimators import PerfEstimateFunc
from poplar._store import Store
from poplar._tensor import Tensor
from poplar._vertices import Registered, VertexTable
from poplar.execution.streams import DataStream, HostFunction, HostFunctionArgument, RemoteBuffer, ReplicatedStreamMode


class Shared:
    """What a graph and its virtual graphs have in common."""

    def __init__(self) -> None:
        self.store = Store()
        self.codelets: dict[str, Registered] = {}
        self.estimators: dict[str, PerfEstimateFunc] = {}  # by codelet
        self.tables: list[VertexTable] = []
        self.streams: dict[str, DataStream] = {}
        self.remote_buffers: dict[str, RemoteBuffer] = {}
        self.host_functions: dict[str, HostFunction] = {}
        self.host_writes: dict[str, Tensor] = {}
        self.host_reads: dict[str, Tensor] = {}
        self.functions: list[programs.Program] = []
        self.library_ops: list[LibraryOp] = []
        self.seeds = 0  # of random library calls


class HostAccess:
    """The part of `Graph` that is about the host."""

    shared: Shared

    def createHostWrite(self, handle: str, tensor: Tensor, rearrangeOnHost: bool = False) -> None:
        _refuse_known(handle, self.shared.host_writes, "host write")
        self.shared.host_writes[handle] = tensor

    def createHostRead(self, handle: str, tensor: Tensor, rearrangeOnHost: bool = False) -> None:
        _refuse_known(handle, self.shared.host_reads, "host read")
        self.shared.host_reads[handle] = tensor

    def addHostToDeviceFIFO(
        self,
        handle: str,
        element: ElementType | str,
        numElements: int,
        mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE,
        options: Mapping[str, str] | None = None,
    ) -> DataStream:
        return self._add_stream(handle, StreamKind.TO_DEVICE, element, numElements, mode)

    def addDeviceToHostFIFO(
        self, handle: str, element: ElementType | str, numElements: int, options: Mapping[str, str] | None = None
    ) -> DataStream:
        return self._add_stream(handle, StreamKind.FROM_DEVICE, element, numElements, ReplicatedStreamMode.REPLICATE)

    def _add_stream(
        self, handle: str, kind: StreamKind, element: ElementType | str, elements: int, mode: ReplicatedStreamMode
    ) -> DataStream:
        streams = self.shared.streams
        _refuse_known(handle, streams, "stream")
        streams[handle] = DataStream(len(streams), handle, kind, find_type(element), int(elements), mode)
        return streams[handle]

    def addRemoteBuffer(
        self,
        handle: str,
        element: ElementType | str,
        numElements: int,
        repeats: int = 1,
        rearrangeOnHost: bool = False,
        optimiseMemory: bool = False,
    ) -> RemoteBuffer:
        buffers = self.shared.remote_buffers
        _refuse_known(handle, buffers, "remote buffer")
        buffers[handle] = RemoteBuffer(len(buffers), handle, find_type(element), int(numElements), int(repeats))
        return buffers[handle]

    def addHostFunction(self, handle: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> HostFunction:
        """`inputs` and `outputs` are `HostFunctionArgument`s, or pairs of a type and a number of elements."""
        functions = self.shared.host_functions
        _refuse_known(handle, functions, "host function")
        taken, given = (tuple(_read_argument(entry) for entry in side) for side in (inputs, outputs))
        functions[handle] = HostFunction(len(functions), handle, taken, given)
        return functions[handle]

    def addFunction(self, program: programs.Program) -> programs.Function:
        """A program whose code is there once, however often it is called."""
        self.shared.functions.append(program)
        return programs.Function(len(self.shared.functions) - 1)


def find_type(element: ElementType | str) -> ElementType:
    """An element type, or one by its name in C++."""
    if isinstance(element, ElementType):
        return element
    if element not in ELEMENT_TYPES:
        raise type_error(f"There is no element type {element!r}. Known: {', '.join(ELEMENT_TYPES)}.")
    return ELEMENT_TYPES[element]


def _refuse_known(handle: str, known: Mapping[str, Any], what: str) -> None:
    if handle in known:
        raise poplar_error(f"There is already a {what} with the handle {handle!r}. Handles are unique.")


def _read_argument(entry: Any) -> HostFunctionArgument:
    if isinstance(entry, HostFunctionArgument):
        return entry
    element, elements = entry
    return HostFunctionArgument(find_type(element), int(elements))
