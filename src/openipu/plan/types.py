"""The plan: what an IPU would do with a program. Frozen, and independent of the graph that it came from.

All is counted for one replica: sizes in bytes, times in cycles of the target's clock unless the name says otherwise.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.graph import Phase, RunOptions, SourceLine
from openipu.machine import Provenance, System, estimate_fit_probability
from openipu.ops.cost import Family, StepKind

TileBytes = npt.NDArray[np.int64]  # one entry per tile


class VariableKind(StrEnum):
    """What a variable holds; the first eight are always live, unless they are kept off chip or a user's own."""

    VARIABLE = "variable"  # of a program that places its tensors itself
    PARAMETER = "parameter"
    STATE = "optimizer state"
    ACCUMULATOR = "gradient accumulator"
    BUFFER = "buffer"
    CONSTANT = "constant"
    STREAM = "host stream buffer"
    STASH = "pipeline stash"  # activations of micro-batches that are still on their way through the pipeline
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    SCRATCH = "scratch"  # temporary of one op


class MemoryCategory(StrEnum):
    """Always-live memory that is not a variable: names as profile users know them."""

    VERTEX_CODE = "vertexCode"
    VERTEX_STATE = "vertexInstanceState"
    EXCHANGE_CODE = "internalExchangeCode"
    HOST_EXCHANGE_CODE = "hostExchangeCode"
    CONTROL_CODE = "controlCode"


@dataclass(frozen=True, slots=True)
class TileMapping:
    """Bytes spread evenly, in whole grains, over `tiles` consecutive tiles from `first_tile` (modulo the IPU)."""

    first_tile: int
    tiles: int
    total_bytes: int
    grain_bytes: int = 8

    def bytes_by_tile(self, ipu_tiles: int) -> TileBytes:
        """How much each tile of the IPU holds."""
        result = np.zeros(ipu_tiles, dtype=np.int64)
        if self.total_bytes == 0:
            return result
        grains = -(-self.total_bytes // self.grain_bytes)
        edges = np.arange(self.tiles + 1, dtype=np.int64) * grains // self.tiles
        held = np.diff(edges) * self.grain_bytes
        result[(self.first_tile + np.arange(self.tiles)) % ipu_tiles] = held
        return result

    @property
    def peak_tile_bytes(self) -> int:
        """What the fullest tile holds."""
        grains = -(-self.total_bytes // self.grain_bytes)
        return -(-grains // self.tiles) * self.grain_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Bytes on the tiles that hold any, by tile: what a program's own mapping says."""

    places: TileBytes
    held: TileBytes

    @property
    def first_tile(self) -> int:
        return int(self.places[0]) if len(self.places) else 0

    @property
    def tiles(self) -> int:
        """From the first tile that holds any to the last one."""
        return int(self.places[-1] - self.places[0]) + 1 if len(self.places) else 0

    @property
    def total_bytes(self) -> int:
        return int(self.held.sum())

    @property
    def grain_bytes(self) -> int:
        return 1

    @property
    def peak_tile_bytes(self) -> int:
        return int(self.held.max(initial=0))

    def bytes_by_tile(self, ipu_tiles: int) -> TileBytes:
        """How much each tile of the IPU holds."""
        result = np.zeros(ipu_tiles, dtype=np.int64)
        result[self.places] = self.held
        return result


@dataclass(frozen=True, slots=True)
class Variable:
    """One piece of memory: where it lies and when it is live (`first_step` to `last_step`, both included)."""

    index: int
    name: str
    kind: VariableKind
    shape: tuple[int, ...]
    dtype: str  # "float16"
    mapping: TileMapping | Spread
    always_live: bool
    first_step: int
    last_step: int
    op: int | None = None  # index of the PlannedOp that makes it
    ipu: int = 0

    @property
    def bytes(self) -> int:
        return self.mapping.total_bytes


@dataclass(frozen=True, slots=True)
class StepCode:
    """What a step keeps on each of its tiles besides data. Steps of equal ops run one program, and share its code."""

    program: int  # steps with the same number run the same program
    first_tile: int
    vertex: str  # type of its vertices
    vertex_code_bytes: int  # one copy on each tile, for all steps with such vertices
    vertices_per_tile: int
    state_bytes: int  # of all vertices on a tile
    exchange_bytes: int
    control_bytes: int  # on every tile of the IPU


@dataclass(frozen=True, slots=True, eq=False)
class StepTiles:
    """What each tile does in one execution of a step, where that is known: one entry per tile of the IPU."""

    cycles: TileBytes
    busy_cycles: npt.NDArray[np.float64] | None  # of workers that are not idle
    vertices: TileBytes | None
    executions: int


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """One program of a program tree; parents come first. A leaf names its steps, others have -1 and 0."""

    kind: str
    name: str
    parent: int  # -1: at the top
    count: int  # how often a Repeat repeats
    first_step: int
    steps: int


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One phase: a compute set, an exchange, a sync, or a host stream. Executed `repeats` times in a row."""

    index: int
    kind: StepKind
    name: str
    cycles: float  # all repeats
    tiles: int
    moved_bytes: int
    flops: int
    op: int | None  # index of the PlannedOp; None for streams of the program itself
    phase: Phase
    repeats: int = 1
    ipu: int = 0
    stage: int = 0
    per_call: bool = False  # once a call, where others run once a micro-batch or update
    code: StepCode | None = None  # None: syncs and streams
    by_tile: StepTiles | None = None  # None: all its tiles take as long
    sender: tuple[int, Phase] | None = None  # of a copy between IPUs: the stage and phase that it comes from


@dataclass(frozen=True, slots=True)
class PlannedOp:
    """One op of the graph with its cost: totals over its steps, once per execution of its phase."""

    index: int
    name: str  # the graph node's name
    op: str  # "aten.addmm.default"
    family: Family
    phase: Phase
    module: str
    line: SourceLine | None
    cycles: float
    flops: int
    moved_bytes: int
    scratch_bytes_per_tile: int
    first_step: int
    step_count: int
    provenance: Provenance
    basis: str
    ipu: int = 0
    stage: int = 0
    plan: Mapping[str, Any] = field(default_factory=dict)
    reads: tuple[int, ...] = ()  # indices of variables; scratch is not among them
    writes: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class IpuMemory:
    """Memory of one IPU: arrays have one entry per tile (or per step)."""

    ipu: int
    always_live: TileBytes  # variables that live for the whole program
    categories: Mapping[MemoryCategory, TileBytes]  # code and descriptors, always live too
    peak_not_always_live: TileBytes  # each tile's own maximum over steps
    peak_step_by_tile: npt.NDArray[np.int64]  # the step of that maximum
    live_by_step: npt.NDArray[np.int64]  # not-always-live bytes, all tiles, at each step
    fullest_by_step: npt.NDArray[np.int64]  # not-always-live bytes of the fullest tile at each step

    @property
    def always_live_total(self) -> TileBytes:
        """Variables plus code and descriptors."""
        total: TileBytes = self.always_live.copy()
        for values in self.categories.values():
            total += values
        return total

    @property
    def peak(self) -> TileBytes:
        """What each tile needs at its worst step."""
        return self.always_live_total + self.peak_not_always_live


@dataclass(frozen=True, slots=True)
class Culprit:
    """A tensor that fills the fullest tile at its worst step."""

    name: str
    kind: str
    bytes_on_tile: int
    bytes_total: int
    module: str
    line: SourceLine | None


@dataclass(frozen=True, slots=True)
class Fit:
    """Does the program fit its IPUs? A result, never an exception."""

    fits: bool
    limit_bytes: int  # usable bytes of a tile
    peak_bytes: int  # of the fullest tile
    peak_tile: int
    peak_ipu: int
    peak_step: int
    tiles_over: int  # tiles above the limit
    bytes_over: int  # sum over those tiles
    needed_bytes: int  # of all tiles, each at its own worst step
    culprits: tuple[Culprit, ...] = ()

    @property
    def bytes_over_worst_tile(self) -> int:
        return max(0, self.peak_bytes - self.limit_bytes)

    @property
    def probability(self) -> float:
        """That it fits a real IPU: what is close to the limit may turn out either way."""
        return estimate_fit_probability(self.peak_bytes, self.limit_bytes)


@dataclass(frozen=True, slots=True)
class Timing:
    """Modelled cycles of one replica. One call = device_iterations x (accumulation x micro + update)."""

    micro_cycles: float  # one micro-batch with its host streams; in a pipeline, one tick with every stage busy
    update_cycles: float  # one optimizer update, with gradient reduction
    host_cycles: float  # the part of micro_cycles spent in host streams
    call_cycles: float  # one call of the program
    clock_hz: float
    samples_per_call: int  # all replicas
    guessed_cycles: float  # the part of call_cycles that rests on guesses

    @property
    def call_seconds(self) -> float:
        return self.call_cycles / self.clock_hz

    @property
    def samples_per_second(self) -> float:
        return self.samples_per_call / self.call_seconds if self.call_cycles else 0.0


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """One stage of a pipeline: forward stages in order, then backward stages in reverse."""

    index: int
    ipu: int
    forward: bool
    backward: bool  # the last stage does both in one
    cycles: float  # one micro-batch


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How micro-batches flow through stages: in tick t, stage p works on micro-batch t - p."""

    stages: tuple[PipelineStage, ...]
    micro_batches: int  # between two flushes: accumulation in training, device iterations in inference
    fill_cycles: tuple[float, ...]  # ticks until every stage is busy
    steady_cycles: float  # a tick with every stage busy
    steady_ticks: int
    drain_cycles: tuple[float, ...]  # ticks after the last micro-batch has entered

    @property
    def total_cycles(self) -> float:
        """From the first micro-batch's entry to the last one's exit."""
        return sum(self.fill_cycles) + self.steady_cycles * self.steady_ticks + sum(self.drain_cycles)


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Program x System x RunOptions: everything a report shows."""

    name: str
    system: System
    options: RunOptions
    micro_batch: int  # samples in one micro-batch
    ops: tuple[PlannedOp, ...]
    steps: tuple[PlannedStep, ...]
    variables: tuple[Variable, ...]
    memory: tuple[IpuMemory, ...]  # one an IPU
    fit: Fit
    timing: Timing
    guessed_ops: Mapping[str, int]  # op -> how often its cost is a guess; PlannedOp.basis says why
    planning_seconds: float = 0.0
    passes: Mapping[str, float] = field(default_factory=dict)  # pass name -> seconds
    warnings: tuple[str, ...] = ()  # what the reader of a report should know
    pipeline: Pipeline | None = None
    tree: tuple[ProgramEntry, ...] = ()  # empty: micro-batches, updates and iterations, as the options say

    def __repr__(self) -> str:
        return str(_load_report("short").describe_program(self))

    def _repr_html_(self) -> str:
        """The whole report, inline in a notebook."""
        return str(_load_report("convert").build_profile(self)._repr_html_())

    @property
    def ipus(self) -> int:
        """IPUs of one replica."""
        return len(self.memory)

    def fits(self) -> bool:
        """Does every tile hold what it needs?"""
        return self.fit.fits

    @property
    def peak_tile_bytes(self) -> int:
        """What the fullest tile needs at its worst step."""
        return self.fit.peak_bytes

    @property
    def samples_per_second(self) -> float:
        """Modelled throughput of all replicas."""
        return self.timing.samples_per_second

    @property
    def cycles_by_kind(self) -> Mapping[str, float]:
        """Cycles of one call by kind of step, those of all IPUs added up; kinds without any are left out."""
        options = self.options
        totals = dict.fromkeys(StepKind, 0.0)
        for step in self.steps:
            accumulated = 1 if step.phase is Phase.UPDATE else options.gradient_accumulation
            totals[step.kind] += step.cycles * (1 if step.per_call else options.device_iterations * accumulated)
        return {kind.value: float(cycles) for kind, cycles in totals.items() if cycles}

    def not_always_live_at(self, step: int, ipu: int = 0) -> TileBytes:
        """Not-always-live bytes on each tile at one step."""
        tiles = self.system.target.tiles
        live = np.zeros(tiles, dtype=np.int64)
        for variable in self.variables_at(step, ipu):
            live += variable.mapping.bytes_by_tile(tiles)
        return live

    def variables_at(self, step: int, ipu: int = 0) -> tuple[Variable, ...]:
        """Variables live at one step that are not always live."""
        return tuple(
            variable
            for variable in self.variables
            if not variable.always_live and variable.ipu == ipu and variable.first_step <= step <= variable.last_step
        )


def _load_report(module: str) -> Any:
    """By name: reports are made of plans, which know them only to show themselves."""
    return importlib.import_module(f"openipu.report.{module}")
