"""Execution as the plan has it: each step once, one after the other on its own IPU.

In: a profile and its programs. Out: `ExecutionStep`s, and one `Run` that lasts as long as a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openipu.report.profile import Floats, Integers, Profile
from pva._lists import LazyList
from pva._programs import ComputeSet, Program


@dataclass(frozen=True)
class CycleRange:
    """The earliest and the latest tile. A plan has all tiles of a step begin and end together."""

    min: int
    max: int


@dataclass(frozen=True)
class ActiveCycles:
    """When a step begins and ends, in cycles from the beginning."""

    cyclesFrom: CycleRange
    cyclesTo: CycleRange


@dataclass(frozen=True)
class StepOnIpu:
    """What one IPU does in a step; nothing, if the step is another IPU's."""

    cycles: int
    activeCycles: ActiveCycles
    activeTiles: int
    tileBalance: float
    activeTileBalance: float
    dataIn: int
    dataOut: int


@dataclass(frozen=True, eq=False)
class ExecutionStep:
    """One step."""

    program: Program
    ipus: Sequence[StepOnIpu]

    @property
    def cyclesByTile(self) -> Integers:
        return self.program.estimatedCyclesByTile

    @property
    def computeSets(self) -> list[ComputeSet]:
        return [] if self.program.computeset is None else [self.program.computeset]


@dataclass(frozen=True)
class Microseconds:
    """From a program's beginning."""

    start: float
    end: float


@dataclass(frozen=True, eq=False)
class Run:
    """One call of the program."""

    name: str
    steps: Sequence[ExecutionStep]
    microseconds: Microseconds


class TotalCycles(int):
    """A number of cycles, which scripts read as it is or as its `total`."""

    @property
    def total(self) -> int:
        return int(self)


class Execution:
    """The modelled execution of one call."""

    def __init__(self, profile: Profile, programs: Sequence[Program], run_name: str = "") -> None:
        self._profile, self._programs = profile, programs
        self._run_name = run_name or profile.name
        self._ends = [
            np.cumsum(np.where(profile.steps.ipu == ipu, profile.steps.cycles, 0.0))
            for ipu in range(len(profile.memory))
        ]
        self.steps: LazyList[ExecutionStep] = LazyList(len(profile.steps), self._make_step)

    @property
    def runs(self) -> list[Run]:
        timing = self._profile.timing
        return [Run(self._run_name, self.steps, Microseconds(0.0, timing.call_cycles / timing.clock_hz * 1e6))]

    @property
    def totalCycles(self) -> TotalCycles:
        """Cycles of one call, with all micro-batches and updates."""
        return TotalCycles(round(self._profile.timing.call_cycles))

    def _make_step(self, index: int) -> ExecutionStep:
        return ExecutionStep(
            self._programs[index], [self._make_part(index, ipu, ends) for ipu, ends in enumerate(self._ends)]
        )

    def _make_part(self, index: int, ipu: int, ends: Floats) -> StepOnIpu:
        steps = self._profile.steps
        own = int(steps.ipu[index]) == ipu
        end = round(float(ends[index]))
        start = round(float(ends[index] - (steps.cycles[index] if own else 0.0)))
        tiles = int(steps.tiles[index]) if own else 0
        moved = int(steps.moved_bytes[index]) if own else 0
        return StepOnIpu(
            cycles=end - start,
            activeCycles=ActiveCycles(CycleRange(start, start), CycleRange(end, end)),
            activeTiles=tiles,
            tileBalance=min(1.0, tiles / self._profile.system.target.tiles),
            activeTileBalance=1.0 if tiles else 0.0,
            dataIn=moved,
            dataOut=moved,
        )
