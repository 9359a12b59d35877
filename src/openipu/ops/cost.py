"""What an op costs on an IPU: the types between the op table and the planner.

In (from the planner): an `OpSite`, one ATen call with shapes and number formats but no values, and a `CostContext`.
Out (from a rule): an `OpCost`: its BSP steps, scratch memory, how its results lie on the tiles, where the numbers are
from.

A rule knows nothing of graphs, lifetimes or other ops. The planner adds syncs, rearrangements and memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import torch

from openipu.machine import Provenance, Target

# Number formats an IPU does not have are narrowed on the way in.
_IPU_ELEMENT_BYTES: dict[torch.dtype, int] = {torch.float64: 4, torch.bfloat16: 4, torch.int64: 4}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as a rule sees it.

    repeated: dimensions along which an index is the same, as an expanded view is: what it points to are rows then.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    repeated: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def element_bytes(self) -> int:
        """Bytes on the IPU: int64 is held as int32, float64 and bfloat16 as float32."""
        return _IPU_ELEMENT_BYTES.get(self.dtype, self.dtype.itemsize)

    @property
    def bytes(self) -> int:
        return self.elements * self.element_bytes

    @property
    def is_half(self) -> bool:
        return self.dtype is torch.float16

    @property
    def is_float8(self) -> bool:
        return self.dtype.is_floating_point and self.dtype.itemsize == 1


@dataclass(frozen=True, slots=True)
class OpSite:
    """One ATen call: `args` and `kwargs` as in the graph, with an `Operand` in place of each tensor."""

    op: str  # "aten.addmm.default"
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Operand, ...]
    backward: bool = False
    bodies: tuple[SiteBody, ...] = ()  # loops and branches: what they run

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Tensor arguments in order, lists flattened."""
        found: list[Operand] = []
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, Operand):
                found.append(value)
            elif isinstance(value, list | tuple):
                found.extend(item for item in value if isinstance(item, Operand))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SiteBody:
    """The calls inside a loop or a branch, in order."""

    sites: tuple[OpSite, ...]
    repeats: int
    live_bytes: int  # the most that its own values take at one time


@dataclass(frozen=True, slots=True)
class CostContext:
    """The machine and the user's settings that rules read."""

    target: Target
    tiles: int  # tiles available for compute (I/O tiles taken off)
    half_partials: bool = False  # half results of half operands accumulate in half
    available_memory_proportion: float = 0.6
    streaming_bytes_per_second: float = math.inf  # between one IPU and the memory beside it, one way


class StepKind(StrEnum):
    """The phases of a bulk-synchronous program."""

    COMPUTE = "compute"
    SYNC = "sync"
    EXCHANGE = "exchange"  # between tiles of one IPU
    HOST = "host"  # streams to and from the host
    LINK = "link"  # between IPUs


@dataclass(frozen=True, slots=True)
class CostStep:
    """One phase of an op. `cycles` is the busiest tile's time for one repetition."""

    kind: StepKind
    name: str  # what a profile shows: "AMP 1x1", "broadcast weights", "reduce stage 1"
    cycles: float
    tiles: int  # tiles taking part
    moved_bytes: int = 0  # exchange: bytes received, all tiles, one repetition
    flops: int = 0  # compute: floating-point operations, all tiles, one repetition
    vertex: str = ""  # compute: vertex type, one copy of its code on each tile
    vertices_per_tile: int = 1  # compute: instances, for vertex state
    messages_per_tile: int = 1  # exchange: distinct incoming pieces, for exchange code
    repeats: int = 1

    @property
    def total_cycles(self) -> float:
        return self.cycles * self.repeats


class Family(StrEnum):
    """What kind of work an op is; reports group by it."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    SOFTMAX = "softmax"
    NORM = "norm"
    GATHER = "gather"
    SCATTER = "scatter"
    POOLING = "pooling"
    LAYOUT = "layout"  # copies, transposes, concatenation
    RANDOM = "random"
    CONSTANT = "constant"  # made without reading anything: zeros, full, arange
    VIEW = "view"  # another name for the same bytes: free
    OPTIMIZER = "optimizer"
    MARKER = "marker"  # an annotation: free
    TRANSFER = "transfer"  # between chips, or to memory off chip
    CONTROL = "control"  # loops and branches
    VERTEX = "vertex"  # a user's own vertices
    UNKNOWN = "unknown"


class Placement(StrEnum):
    """How a result lies on the tiles."""

    LINEAR = "linear"  # spread evenly, in order, from tile 0
    FOLLOW = "follow"  # as the first tensor operand of the same size lies
    PLANNED = "planned"  # as the matmul or convolution plan leaves it: evenly over the tiles of the plan
    ALIAS = "alias"  # the operand's own bytes


class LaidOut(NamedTuple):
    """One operand that a price takes to lie on the busiest tile as its plan wants it."""

    operand: int  # its number in the call
    bytes_on_tile: float
    room_bytes: float  # on the tile, besides the scratch of the op, if it has to come


@dataclass(frozen=True, slots=True)
class OpCost:
    """Everything a rule knows of one op."""

    family: Family
    steps: tuple[CostStep, ...]
    placement: Placement = Placement.LINEAR
    result_tiles: int = 0  # PLANNED: tiles that hold the result
    scratch_bytes_per_tile: int = 0  # live only during the op, on the tiles of its largest step
    aligned: bool = False  # operands must lie as the result does; the planner pays to move those that do not
    # Operands that the price takes to lie as its plan wants them. What another op left elsewhere has to come first; the
    # planner pays for that.
    laid_out: tuple[LaidOut, ...] = ()
    in_place: bool = False  # the result may overwrite its first operand when that dies here
    provenance: Provenance = Provenance.PUBLISHED
    basis: str = ""  # where the formula is from
    plan: Mapping[str, Any] = field(default_factory=dict)  # what the planner chose, for reports

    @property
    def cycles(self) -> float:
        return sum(step.total_cycles for step in self.steps)

    @property
    def flops(self) -> int:
        return sum(step.flops * step.repeats for step in self.steps)
