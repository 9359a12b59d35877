"""What every report reads: a `Profile`, the plan as plain records and numpy arrays.

In: nothing but numbers and strings, from a plan (`convert`) or from a file (`read`).
Out: frozen dataclasses. Kinds and phases are plain strings here, because a profile opens without PyTorch.

All figures are modelled, for one replica, once per execution of their phase; `Profile.executions` says how often
each phase runs in one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openipu.machine import System, estimate_fit_probability
from openipu.report.advice import AdviceRecord

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UPDATE_PHASE = "update"
COPYING_FAMILIES = ("layout", "transfer")  # ops that only move or reorder bytes


@dataclass(frozen=True, slots=True)
class LineRecord:
    """A line of the user's own code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op of the graph, with totals over its steps."""

    index: int
    name: str
    op: str
    family: str
    phase: str
    module: str
    line: LineRecord | None
    cycles: float
    flops: int
    moved_bytes: int
    scratch_bytes_per_tile: int
    first_step: int
    step_count: int
    provenance: str
    basis: str
    ipu: int
    stage: int
    plan: Mapping[str, Any]
    reads: tuple[int, ...] = ()  # indices of variables
    writes: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class StepTileRecord:
    """What each tile of its IPU does in one execution of a step."""

    executions: int
    cycles: Integers
    busy_cycles: Integers | None  # of workers that are not idle
    vertices: Integers | None


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """One program of a program tree; parents come first. A leaf names its steps, others have -1 and 0."""

    index: int
    kind: str
    name: str
    parent: int  # -1: at the top
    count: int
    first_step: int
    steps: int


@dataclass(frozen=True, eq=False)
class StepColumns:
    """All steps in order of execution, one entry per step in each column. `op` is -1 where a step has none."""

    kind: tuple[str, ...]
    name: tuple[str, ...]
    phase: tuple[str, ...]
    cycles: Floats
    tiles: Integers
    moved_bytes: Integers
    flops: Integers
    op: Integers
    repeats: Integers
    per_call: Integers  # 1: once a call, where others run once a micro-batch or update
    ipu: Integers
    stage: Integers
    # What a step keeps on a tile besides data. -1, "" and 0 where it keeps nothing: syncs and streams.
    program: Integers  # steps with the same number run one program, and share its code
    first_tile: Integers
    vertex: tuple[str, ...]
    vertices_per_tile: Integers
    state_bytes: Integers
    exchange_code_bytes: Integers
    control_code_bytes: Integers
    by_tile: Mapping[int, StepTileRecord] = field(default_factory=dict)  # steps whose tiles differ, as far as known

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True)
class VariableRecord:
    """One piece of memory: spread in whole grains over `tiles` consecutive tiles, live from first to last step.

    Where a program says itself what lies where, `places` are the tiles that hold any of it, and `held` how much.
    """

    index: int
    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    first_tile: int
    tiles: int
    total_bytes: int
    grain_bytes: int
    always_live: bool
    first_step: int
    last_step: int
    op: int | None
    ipu: int
    places: tuple[int, ...] = ()
    held: tuple[int, ...] = ()

    def bytes_by_tile(self, ipu_tiles: int) -> Integers:
        """How much each tile of the IPU holds."""
        held = np.zeros(ipu_tiles, dtype=np.int64)
        if self.places:
            held[list(self.places)] = self.held
        elif self.total_bytes:
            grains = -(-self.total_bytes // self.grain_bytes)
            edges = np.arange(self.tiles + 1, dtype=np.int64) * grains // self.tiles
            held[(self.first_tile + np.arange(self.tiles)) % ipu_tiles] = np.diff(edges) * self.grain_bytes
        return held

    def bytes_on_tile(self, tile: int, ipu_tiles: int) -> int:
        """How much one tile holds."""
        if self.places:
            return dict(zip(self.places, self.held, strict=True)).get(tile, 0)
        place = (tile - self.first_tile) % ipu_tiles
        if place >= self.tiles or not self.total_bytes:
            return 0
        grains = -(-self.total_bytes // self.grain_bytes)
        return ((place + 1) * grains // self.tiles - place * grains // self.tiles) * self.grain_bytes


@dataclass(frozen=True, eq=False)
class MemoryRecord:
    """Memory of one IPU: arrays have one entry per tile, or per step where the name says so."""

    ipu: int
    always_live: Integers
    categories: Mapping[str, Integers]
    peak_not_always_live: Integers
    peak_step_by_tile: Integers
    live_by_step: Integers
    fullest_by_step: Integers

    @property
    def always_live_total(self) -> Integers:
        """Variables plus code and descriptors."""
        total: Integers = self.always_live.copy()
        for values in self.categories.values():
            total += values
        return total

    @property
    def peak(self) -> Integers:
        """What each tile needs at its worst step."""
        return self.always_live_total + self.peak_not_always_live


@dataclass(frozen=True, slots=True)
class CulpritRecord:
    """A tensor that fills the fullest tile at its worst step."""

    name: str
    kind: str
    bytes_on_tile: int
    bytes_total: int
    module: str
    line: LineRecord | None


@dataclass(frozen=True, slots=True)
class FitRecord:
    """Does the program fit its IPUs?"""

    fits: bool
    limit_bytes: int
    peak_bytes: int
    peak_tile: int
    peak_ipu: int
    peak_step: int
    tiles_over: int
    bytes_over: int
    needed_bytes: int
    culprits: tuple[CulpritRecord, ...]

    @property
    def bytes_over_worst_tile(self) -> int:
        return max(0, self.peak_bytes - self.limit_bytes)

    @property
    def probability(self) -> float:
        """That it fits a real IPU: what is close to the limit may turn out either way."""
        return estimate_fit_probability(self.peak_bytes, self.limit_bytes)


@dataclass(frozen=True, slots=True)
class TimingRecord:
    """Modelled cycles of one replica. One call = device_iterations x (accumulation x micro + update).

    In a pipeline `micro_cycles` is one tick with every stage busy, and a call also fills and drains.
    """

    micro_cycles: float
    update_cycles: float
    host_cycles: float
    call_cycles: float
    clock_hz: float
    samples_per_call: int
    guessed_cycles: float

    @property
    def samples_per_second(self) -> float:
        return self.samples_per_call * self.clock_hz / self.call_cycles if self.call_cycles else 0.0


@dataclass(frozen=True, slots=True)
class StageRecord:
    """One stage of a pipeline: forward stages in order, then backward stages in reverse. The last does both in one."""

    index: int
    ipu: int
    forward: bool
    backward: bool
    cycles: float  # one micro-batch


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    """How micro-batches flow through stages: in tick t, stage p works on micro-batch t - p."""

    stages: tuple[StageRecord, ...]
    micro_batches: int  # between two flushes
    fill_cycles: tuple[float, ...]
    steady_cycles: float
    steady_ticks: int
    drain_cycles: tuple[float, ...]

    @property
    def total_cycles(self) -> float:
        """From the first micro-batch's entry to the last one's exit."""
        return sum(self.fill_cycles) + self.steady_cycles * self.steady_ticks + sum(self.drain_cycles)

    @property
    def last_stage(self) -> int:
        """The highest number of a user's stage."""
        return max((stage.index for stage in self.stages if stage.forward), default=0)

    def number_of(self, stage: StageRecord) -> int:
        """The user's number of a stage: its backward has the same number as its forward."""
        return stage.index if stage.forward else 2 * self.last_stage - stage.index


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """Everything a report shows."""

    openipu_version: str
    created: str  # UTC, ISO 8601
    name: str
    micro_batch: int
    system: System
    options: Mapping[str, Any]
    ops: tuple[OpRecord, ...]
    steps: StepColumns
    variables: tuple[VariableRecord, ...]
    memory: tuple[MemoryRecord, ...]
    fit: FitRecord
    timing: TimingRecord
    guesses: Mapping[str, int]  # op -> how often, for those without a row of their own
    planning_seconds: float
    passes: Mapping[str, float]
    warnings: tuple[str, ...]
    pipeline: PipelineRecord | None = None
    vertex_code_bytes: Mapping[str, int] = field(default_factory=dict)  # vertex type -> one copy of its code
    tree: tuple[ProgramRecord, ...] = ()  # empty: micro-batches, updates and iterations, as the options say
    advice: AdviceRecord | None = None  # of a program that does not fit, where levers were planned

    def __repr__(self) -> str:
        from openipu.report.short import describe_program

        return describe_program(self)

    def _repr_html_(self) -> str:
        """The whole report, inline in a notebook."""
        from openipu.report.html import render_html
        from openipu.report.notebook import frame_page

        return frame_page(render_html(self), f"Report of {self.name}")

    def executions(self, phase: str) -> int:
        """How often the steps of a phase run in one call of one replica."""
        iterations = int(self.options.get("device_iterations", 1))
        if phase == UPDATE_PHASE:
            return iterations
        return iterations * int(self.options.get("gradient_accumulation", 1))

    def kind_of(self, variable: VariableRecord) -> str:
        """What a variable is kept for: its kind, or "copy" for what an op made that only moves or reorders bytes."""
        made = None if variable.op is None else self.ops[variable.op].family
        return "copy" if variable.kind in ("activation", "gradient") and made in COPYING_FAMILIES else variable.kind

    def always_live_by_kind(self, ipu: int) -> dict[str, Integers]:
        """Always-live variables of one IPU by kind: bytes on each tile."""
        tiles = self.system.target.tiles
        by_kind: dict[str, Integers] = {}
        for variable in self.variables:
            if variable.always_live and variable.ipu == ipu:
                held = by_kind.setdefault(variable.kind, np.zeros(tiles, dtype=np.int64))
                held += variable.bytes_by_tile(tiles)
        return by_kind
