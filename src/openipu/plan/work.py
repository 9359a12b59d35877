"""The planner's own notes: tasks in execution order, the values they read and write, the storage behind the values.

Only the passes of this folder see these; a finished `Plan` is made from them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from openipu.graph import Note, Phase
from openipu.ops.cost import OpCost, Operand, OpSite, StepKind
from openipu.plan.residence import ON_CHIP, Residence
from openipu.plan.types import TileMapping, VariableKind

ALWAYS_LIVE = frozenset(
    {
        VariableKind.PARAMETER,
        VariableKind.STATE,
        VariableKind.ACCUMULATOR,
        VariableKind.BUFFER,
        VariableKind.CONSTANT,
        VariableKind.STREAM,
        VariableKind.STASH,
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a task runs."""

    ipu: int
    stage: int
    phase: Phase


@dataclass(eq=False, slots=True)
class Storage:
    """Memory that one or more values share."""

    name: str
    kind: VariableKind
    operand: Operand  # what one replica keeps
    whole: Operand | None = None  # the tensor, where a replica keeps a share
    place: Place | None = None  # None until something uses it
    residence: Residence = ON_CHIP
    owner: Storage | None = None  # the parameter that this is a state, gradient or new value of
    writer: int | None = None  # index of the task that makes it
    last_reader: int = -1  # index of the last task that reads any value on it
    streamed_out: bool = False  # a result: lives until the host has it
    stash_copies: int = 0  # further micro-batches of this that a pipeline keeps
    mapping: TileMapping | None = None
    layout: Hashable = None  # two tensors of one size with equal layouts lie alike
    like: Storage | None = None  # placed as this one is (optimizer state, accumulators)
    reuses: Storage | None = None  # overwrites this one, which dies here

    @property
    def always_live(self) -> bool:
        return self.kind in ALWAYS_LIVE and not self.residence.off_chip

    @property
    def ipu(self) -> int:
        return self.place.ipu if self.place else 0

    @property
    def root(self) -> Storage:
        """The storage whose bytes these really are."""
        storage = self
        while storage.reuses is not None:
            storage = storage.reuses
        return storage


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of the graph: a storage seen with a shape, perhaps through views that change the order of elements."""

    storage: Storage
    operand: Operand
    view: tuple[Hashable, ...] = ()  # views other than reshapes, so that equal views of equal layouts are recognised

    @property
    def layout(self) -> Hashable:
        base = self.storage.root.layout
        return (base, self.view) if self.view else base


@dataclass(eq=False, slots=True)
class Task:
    """One op that does something, in execution order."""

    index: int
    name: str
    site: OpSite
    note: Note
    place: Place
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    cost: OpCost | None = None
    moves: tuple[Move, ...] = ()  # operands brought into the result's layout first

    @property
    def phase(self) -> Phase:
        return self.place.phase

    @property
    def priced(self) -> OpCost:
        assert self.cost is not None, f"task {self.name} was not priced"
        return self.cost


@dataclass(frozen=True, slots=True)
class Move:
    """One operand that does not lie as its op needs it."""

    operand: Operand
    cycles: float
    tiles: int
    bytes_per_tile: int  # held on a tile while the op runs, besides its scratch
    moved_bytes: int


@dataclass(frozen=True, slots=True)
class Stream:
    """One transfer between host and IPU, or between replicas."""

    kind: StepKind
    name: str
    moved_bytes: int
    cycles: float
    place: Place
    per_call: bool = False  # once a call instead of once a micro-batch


@dataclass(eq=False, slots=True)
class Workload:
    """A program laid out as a list of tasks."""

    name: str
    tasks: list[Task]
    storages: list[Storage]
    inputs: list[Storage]
    results: list[tuple[int, Value]]  # leaf of what comes back, and its value in one micro-batch
    micro_batch: int
    gradient_bytes: dict[int, int]  # by IPU
    ipus: int
    last_stage: int
    streams_in: list[Stream] = field(default_factory=list)
    reductions: list[Stream] = field(default_factory=list)
    streams_out: list[Stream] = field(default_factory=list)
