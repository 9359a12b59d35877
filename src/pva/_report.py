"""A report: the compilation and the execution of one program.

In: the path of a profile. Out: `Report`. A file that is damaged, or was written by another tool, raises the
`ProfileError` of openipu, which says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from openipu.report import read_profile
from openipu.report.profile import OpRecord, Profile
from pva._enums import Architecture, ComputeInstrumentationLevel, ExternalExchangeInstrumentationLevel, TargetType
from pva._execution import Execution
from pva._lists import LazyList
from pva._liveness import Lifetimes, LivenessStep
from pva._programs import ComputeSet, Program, ProgramBuilder
from pva._tiles import Ipu, Tile, list_tiles
from pva._variables import LoweredVariables, UnloweredVariable, list_unlowered


def openReport(profile: str | Path, debug: str | Path | None = None) -> Report:
    """Open a profile. What `debug` would add is in the profile already, so the file is not read."""
    return Report(read_profile(Path(profile)))


@dataclass(frozen=True)
class Version:
    """A version, in one piece and in parts."""

    string: str
    major: int
    minor: int
    point: int
    packageHash: str = ""
    isUnstableFormat: bool = False


@dataclass(frozen=True)
class InstrumentationSettings:
    """How a run was instrumented. Figures of a plan come from no run."""

    compute: ComputeInstrumentationLevel = ComputeInstrumentationLevel.Off
    externalExchange: ExternalExchangeInstrumentationLevel = ExternalExchangeInstrumentationLevel.Off


@dataclass(frozen=True)
class Target:
    """What was compiled for."""

    Type: ClassVar = TargetType

    type: TargetType
    architecture: Architecture
    numIPUs: int
    tilesPerIpu: int
    numReplicas: int
    ipusPerReplica: int
    bytesPerTile: int
    clockFrequency: float

    @property
    def numTiles(self) -> int:
        return self.numIPUs * self.tilesPerIpu

    @property
    def tilesPerReplica(self) -> int:
        return self.ipusPerReplica * self.tilesPerIpu

    @property
    def bytesPerIPU(self) -> int:
        return self.tilesPerIpu * self.bytesPerTile

    @property
    def memoryPerReplica(self) -> int:
        return self.ipusPerReplica * self.bytesPerIPU

    @property
    def totalMemory(self) -> int:
        return self.numIPUs * self.bytesPerIPU


@dataclass(frozen=True)
class Graph:
    """How large the program is."""

    numComputeSets: int
    numVertices: int
    numVars: int
    numEdges: int


class Compilation:
    """What was compiled."""

    def __init__(self, report: Report) -> None:
        self._report, self._profile = report, report._profile

    @cached_property
    def target(self) -> Target:
        profile = self._profile
        described = profile.system.target
        known = {entry.value: entry for entry in Architecture}
        replicas, ipus = self._report._replicas, len(profile.memory)
        return Target(
            type=TargetType.IpuModel,
            architecture=known.get(described.architecture, Architecture.Unknown),
            numIPUs=replicas * ipus,
            tilesPerIpu=described.tiles,
            numReplicas=replicas,
            ipusPerReplica=ipus,
            bytesPerTile=described.tile_memory_bytes,
            clockFrequency=described.clock_hz,
        )

    @cached_property
    def graph(self) -> Graph:
        sets = self.computeSets
        vertices = sum(int(entry.countByTile.sum()) for one in sets for entry in one.vertices)
        edges = sum(len(op.reads) + len(op.writes) for op in self._profile.ops)
        return Graph(len(sets), vertices, len(self._profile.variables), edges)

    @property
    def tiles(self) -> LazyList[Tile]:
        return list_tiles(self._profile, self._report._replicas)

    @property
    def ipus(self) -> list[Ipu]:
        tiles, every = self._profile.system.target.tiles, self.tiles
        return [
            Ipu(LazyList(tiles, lambda tile, first=ipu * tiles: every[first + tile], keep=False))  # type: ignore[misc]
            for ipu in range(self.target.numIPUs)
        ]

    @cached_property
    def computeSets(self) -> list[ComputeSet]:
        return [program.computeset for program in self.programs if program.computeset is not None]

    @property
    def programs(self) -> Sequence[Program]:
        """All programs, the one that a call executes first."""
        built = self._report._programs
        return [built.root, *(program for program in built.everything if program is not built.root)]

    @property
    def livenessProgramSteps(self) -> LazyList[LivenessStep]:
        programs, lifetimes = self._report._programs.of_step, self._report._lifetimes
        return LazyList(len(programs), lambda index: LivenessStep(index, programs[index], lifetimes), keep=False)

    @property
    def alwaysLiveVariables(self) -> list[UnloweredVariable]:
        return self._report._lifetimes.list_always()

    def alwaysLiveVariablesForTile(self, tile: int) -> list[UnloweredVariable]:
        return self._report._lifetimes.list_always(tile)

    @cached_property
    def loweredVariables(self) -> LoweredVariables:
        return LoweredVariables(self._profile, self._report._variables)


class Report:
    """One profile."""

    def __init__(self, profile: Profile, run_name: str = "") -> None:
        """`run_name`: what the program called the run, where it called it something."""
        self._profile, self._run_name = profile, run_name
        self._replicas = int(profile.options.get("replicas", 1))
        self.compilation = Compilation(self)
        self.instrumentationSettings = InstrumentationSettings()

    @cached_property
    def execution(self) -> Execution:
        return Execution(self._profile, self._programs.of_step, self._run_name)

    @property
    def poplarVersion(self) -> Version:
        """The version of openipu, which stands where Poplar stood."""
        return _parse_version(self._profile.openipu_version)

    @property
    def version(self) -> Version:
        return self.poplarVersion

    def _repr_html_(self) -> str:
        """The web report, inline in a notebook."""
        return self._profile._repr_html_()

    def listPrintLength(self, length: int) -> None:
        """How many elements a printed list shows."""
        LazyList.printed = length

    @cached_property
    def _variables(self) -> list[UnloweredVariable]:
        return list_unlowered(self._profile)

    @cached_property
    def _programs(self) -> ProgramBuilder:
        return ProgramBuilder(self._profile, self._variables)

    @cached_property
    def _lifetimes(self) -> Lifetimes:
        return Lifetimes(self._profile)

    def _scratch_of(self, record: OpRecord) -> tuple[int, ...]:
        return self._scratch.get(record.index, ())

    @cached_property
    def _scratch(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for variable in self._profile.variables:
            if variable.kind == "scratch" and variable.op is not None:
                found[variable.op] = (*found.get(variable.op, ()), variable.index)
        return found


def _parse_version(text: str) -> Version:
    numbers = [int(part) for part in text.split("+")[0].split(".")[:3] if part.isdigit()]
    major, minor, point = (*numbers, 0, 0, 0)[:3]
    return Version(f"openipu {text}", major, minor, point)
