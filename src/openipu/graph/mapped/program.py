"""`MappedProgram`: tensors and vertices that a user placed on tiles, and the programs that run over them.

In: from a front end, everything at once. Out: a frozen record that the engine runs and the planner prices. Addresses
are in elements, in the address space of all element types of that size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.graph.mapped.codelets import Array, Codelet
from openipu.graph.mapped.elements import ElementType
from openipu.graph.mapped.nodes import ProgramNode
from openipu.graph.mapped.views import Ints, View
from openipu.graph.program import SourceLine
from openipu.machine import System

NO_TILE = -1
NO_ESTIMATE = -1
MAX_POOL_GRADIENT = "maxPoolGradient"  # a kernel: see `LibraryCall`; all others draw random numbers


@dataclass(frozen=True, slots=True, eq=False)
class TileMap:
    """The tile of every element of an address space: tile `tiles[i]` from `starts[i]` up to the next start."""

    starts: Ints
    tiles: npt.NDArray[np.int32]

    def find(self, addresses: Ints) -> npt.NDArray[np.int32]:
        """The tile of each address; NO_TILE where there is none."""
        if not len(self.starts):
            return np.full(addresses.shape, NO_TILE, dtype=np.int32)
        place = np.searchsorted(self.starts, addresses, side="right") - 1
        found: npt.NDArray[np.int32] = np.where(place >= 0, self.tiles[place], NO_TILE)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class MappedVariable:
    """One variable or constant: a row of addresses."""

    name: str
    type: ElementType
    shape: tuple[int, ...]
    start: int  # in the address space of its element size
    elements: int
    line: SourceLine | None
    value: Array | None = None  # of a constant

    @property
    def bytes(self) -> int:
        return self.elements * self.type.bytes


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """One field of all vertices of a batch: rows of `length` elements, by start and stride, or spelled out."""

    type: ElementType
    length: int  # 1 for a scalar
    scalar: bool
    starts: Ints | None = None  # [count]
    stride: int = 1
    addresses: Ints | None = None  # [count, length]

    def list_addresses(self) -> Ints:
        """[count, length]."""
        if self.addresses is not None:
            return self.addresses
        assert self.starts is not None
        return self.starts[:, None] + np.arange(self.length, dtype=np.int64) * self.stride


@dataclass(frozen=True, slots=True, eq=False)
class VertexBatch:
    """Vertices of one codelet whose fields have the same sizes. A list of vectors has one entry in `edges` a vector."""

    codelet: int
    numbers: Ints  # of the vertices in their compute set, in the order in which they were added
    tiles: npt.NDArray[np.int32]
    cycles: Ints  # NO_ESTIMATE where the user gave none
    flops: Ints
    edges: Mapping[str, tuple[Edges, ...]]
    state: Mapping[str, Array]
    lines: Ints  # of each vertex, in MappedProgram.lines

    @property
    def count(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class MappedComputeSet:
    """Vertices that run at the same time."""

    name: str
    batches: tuple[VertexBatch, ...]

    @property
    def vertices(self) -> int:
        return sum(batch.count for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Value:
    """In the arguments of a library call: the number of a tensor that an input or an earlier call made."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCall:
    """One ATen call of a library function. `args` and `kwargs` hold `Value`s in place of tensors."""

    op: str  # "aten.mm.default"
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]  # of the results
    formats: tuple[str, ...]  # "float32"
    kernel: str = ""  # a function of our own that runs in place of the operator, which then only names the price
    place: int = 0  # among the graph's calls of random kernels


@dataclass(frozen=True, slots=True, eq=False)
class LibraryOp:
    """A library function: ATen calls over views. Inputs are values 0, 1, …; what is returned goes to `outputs`."""

    name: str
    function: str  # "popops::add"
    inputs: tuple[View, ...]
    calls: tuple[LibraryCall, ...]
    returned: tuple[int, ...]
    outputs: tuple[View, ...]
    line: SourceLine | None


class StreamKind(StrEnum):
    """Which way, and what for."""

    TO_DEVICE = "host to device"
    FROM_DEVICE = "device to host"


@dataclass(frozen=True, slots=True)
class MappedStream:
    """A FIFO between host and device."""

    handle: str
    kind: StreamKind
    type: ElementType
    elements: int  # of one transfer


@dataclass(frozen=True, slots=True)
class MappedRemoteBuffer:
    """Memory of the host that a program can address by row."""

    handle: str
    type: ElementType
    elements: int
    rows: int


@dataclass(frozen=True, slots=True)
class MappedHostFunction:
    """A function of the host: element types and counts of what goes in and out."""

    handle: str
    inputs: tuple[tuple[ElementType, int], ...]
    outputs: tuple[tuple[ElementType, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class MappedProgram:
    """Everything that an engine loads. `programs` are what `run` chooses from."""

    name: str
    system: System
    tiles: int  # of one replica
    tiles_per_ipu: int
    replicas: int
    mapped: bool  # False: for the host's processor, where nothing needs a tile
    variables: tuple[MappedVariable, ...]
    spaces: Mapping[int, int]  # element size -> elements of its address space
    tile_maps: Mapping[int, TileMap]
    codelets: tuple[Codelet, ...]
    compute_sets: tuple[MappedComputeSet, ...]
    library_ops: tuple[LibraryOp, ...]
    functions: tuple[ProgramNode, ...]
    programs: tuple[ProgramNode, ...]
    streams: tuple[MappedStream, ...]
    remote_buffers: tuple[MappedRemoteBuffer, ...]
    host_functions: tuple[MappedHostFunction, ...]
    host_writes: Mapping[str, View]
    host_reads: Mapping[str, View]
    lines: tuple[SourceLine, ...] = ()
    min_sync_cycles: float | None = None  # a model's own figure in place of the machine's
    host_bytes_per_second: float | None = None

    def name_element(self, type_: ElementType, address: int) -> str:
        """An element as a user would write it: "partials[3][1]"."""
        for variable in self.variables:
            if variable.type.bytes == type_.bytes and variable.start <= address < variable.start + variable.elements:
                place = np.unravel_index(address - variable.start, variable.shape) if variable.shape else ()
                return variable.name + "".join(f"[{int(index)}]" for index in place)
        return f"element {address}"
