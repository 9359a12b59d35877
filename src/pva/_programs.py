"""Programs: the tree that a call executes, and who walks it.

In: a profile's steps. Out: `Program`s. Steps of equal ops run one program, so a program may be executed by many steps.
A stream between host and IPU is one `StreamCopyMid`. Cycles by tile are those of the busiest tile on all tiles of a
step, unless a program placed its vertices itself: then each tile has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from openipu.report.profile import Integers, Profile
from pva._enums import ProgramType
from pva._variables import UnloweredVariable

_TYPES = {
    "compute": ProgramType.OnTileExecute,
    "exchange": ProgramType.DoExchange,
    "sync": ProgramType.Sync,
    "host": ProgramType.StreamCopyMid,
    "link": ProgramType.GlobalExchange,
}


_CONTROL = {  # programs with others inside, by the names of a profile's tree
    "Program": ProgramType.Sequence,
    "Sequence": ProgramType.Sequence,
    "Repeat": ProgramType.Repeat,
    "RepeatWhile": ProgramType.Repeat,
    "If": ProgramType.OnEveryTileSwitch,
    "Switch": ProgramType.OnEveryTileSwitch,
    "Call": ProgramType.Call,
}


@dataclass(frozen=True)
class VertexType:
    """A codelet; `size` is the state of one instance."""

    name: str
    size: int


@dataclass(frozen=True, eq=False)
class VertexInstances:
    """The vertices of one type in a compute set."""

    type: VertexType
    countByTile: Integers


@dataclass(frozen=True, eq=False)
class ComputeSet:
    """What one compute step runs."""

    name: str
    vertices: Sequence[VertexInstances]
    estimatedCyclesByTile: Integers

    @property
    def cyclesByTile(self) -> Integers:
        return self.estimatedCyclesByTile


@dataclass(frozen=True, eq=False)
class Program:
    """One program. Arrays have one entry a tile of a replica."""

    Type: ClassVar = ProgramType

    _id: int
    name: str
    type: ProgramType
    children: Sequence[Program]
    vars: Sequence[UnloweredVariable]
    controlCodeByTile: Integers
    codeBytesByTile: Integers
    estimatedCyclesByTile: Integers
    computeset: ComputeSet | None = None
    count: int = 1  # a Repeat's executions

    def accept(self, visitor: ProgramVisitor) -> None:
        """Show this program, and not its children, to a visitor."""
        visit = getattr(visitor, f"visit{self.type.value}", None)
        if visit is not None:
            visit(self)

    def __repr__(self) -> str:
        return f"<Program {self._id} {self.type.value} {self.name!r}>"


class ProgramVisitor:
    """To be subclassed: `accept` calls `visitOnTileExecute(program)`, `visitDoExchange(program)`, and so on."""


class ProgramBuilder:
    """Makes each program once."""

    def __init__(self, profile: Profile, variables: Sequence[UnloweredVariable]) -> None:
        self.profile, self.variables = profile, variables
        self.tiles = profile.system.target.tiles
        self.all_tiles = self.tiles * len(profile.memory)
        self.of_step: list[Program] = []
        self.everything: list[Program] = []
        made: dict[int, Program] = {}
        for step in range(len(profile.steps)):
            number = int(profile.steps.program[step])
            program = made.get(number) if number >= 0 else None
            if program is None:
                program = self._make(step)
                if number >= 0:
                    made[number] = program
            self.of_step.append(program)
        self.root = self._make_tree()

    def _make(self, step: int) -> Program:
        steps = self.profile.steps
        kind = _TYPES.get(steps.kind[step], ProgramType.Unknown)
        where = self._find_tiles(step)
        cycles = self._find_cycles(step, where)
        name = self._name_step(step)
        control = np.zeros(self.all_tiles, dtype=np.int64)
        first = int(steps.ipu[step]) * self.tiles
        control[first : first + self.tiles] = steps.control_code_bytes[step]
        computes = None
        if kind is ProgramType.OnTileExecute:
            computes = ComputeSet(name, self._list_vertices(step, where), cycles)
        return self._keep(
            kind,
            name,
            (),
            control_code=control,
            exchange_code=self._spread(where, int(steps.exchange_code_bytes[step])),
            cycles=cycles,
            computeset=computes,
            variables=self._find_variables(step),
        )

    def _keep(
        self,
        kind: ProgramType,
        name: str,
        children: Sequence[Program],
        control_code: Integers | None = None,
        exchange_code: Integers | None = None,
        cycles: Integers | None = None,
        computeset: ComputeSet | None = None,
        variables: Sequence[UnloweredVariable] = (),
        count: int = 1,
    ) -> Program:
        nothing = np.zeros(self.all_tiles, dtype=np.int64)
        if children:  # the control code of a parent includes that of its children, each of which is there once
            unique = {child._id: child.controlCodeByTile for child in children}
            control_code = np.sum(list(unique.values()), axis=0)
        program = Program(
            _id=len(self.everything),
            name=name,
            type=kind,
            children=children,
            vars=variables,
            controlCodeByTile=nothing if control_code is None else control_code,
            codeBytesByTile=nothing if exchange_code is None else exchange_code,
            estimatedCyclesByTile=nothing if cycles is None else cycles,
            computeset=computeset,
            count=count,
        )
        self.everything.append(program)
        return program

    def _make_tree(self) -> Program:
        """One call: what runs once, then device iterations of (accumulated micro-batches, update)."""
        profile, steps = self.profile, self.profile.steps
        if profile.tree:
            return self._copy_tree()
        parts: dict[str, list[Program]] = {"before": [], "micro": [], "update": [], "after": []}
        for step, program in enumerate(self.of_step):
            part = "update" if steps.phase[step] == "update" else "micro"
            if steps.per_call[step]:
                part = "after" if parts["micro"] else "before"
            parts[part].append(program)
        iterations = int(profile.options.get("device_iterations", 1))
        micro = self._keep(ProgramType.Sequence, "micro-batch", tuple(parts["micro"]))
        repeated = self._keep(
            ProgramType.Repeat, "gradient accumulation", (micro,), count=profile.executions("forward") // iterations
        )
        body = [repeated]
        if parts["update"]:
            body.append(self._keep(ProgramType.Sequence, "update", tuple(parts["update"])))
        inner = self._keep(ProgramType.Sequence, "device iteration", tuple(body))
        loop = self._keep(ProgramType.Repeat, "device iterations", (inner,), count=iterations)
        return self._keep(ProgramType.Sequence, profile.name, (*parts["before"], loop, *parts["after"]))

    def _copy_tree(self) -> Program:
        """The tree of a program that was built by hand: children before their parents, as programs are made."""
        tree = self.profile.tree
        children: dict[int, list[Program]] = {}
        for entry in reversed(tree):
            own = children.pop(entry.index, [])[::-1]
            if entry.steps:
                made = self.of_step[entry.first_step : entry.first_step + entry.steps]
                program = made[0] if len(made) == 1 else self._keep(ProgramType.Sequence, entry.name, tuple(made))
            else:
                kind = _CONTROL.get(entry.kind, ProgramType.Unknown)
                program = self._keep(kind, entry.name, tuple(own), count=entry.count)
            children.setdefault(entry.parent, []).append(program)
        return self._keep(ProgramType.Sequence, self.profile.name, tuple(children.pop(-1, [])[::-1]))

    def _name_step(self, step: int) -> str:
        op = int(self.profile.steps.op[step])
        own = self.profile.steps.name[step]
        if op < 0:
            return own
        record = self.profile.ops[op]
        return "/".join(part for part in (record.module.replace(".", "/"), record.name, own) if part)

    def _find_cycles(self, step: int, where: Integers) -> Integers:
        """Of one execution: by tile where the profile knows them."""
        steps = self.profile.steps
        known = steps.by_tile.get(step)
        if known is None:
            return self._spread(where, round(float(steps.cycles[step]) / max(1, int(steps.repeats[step]))))
        first = int(steps.ipu[step]) * self.tiles
        return self._spread(np.arange(first, first + self.tiles), known.cycles)

    def _find_tiles(self, step: int) -> Integers:
        steps = self.profile.steps
        count = min(int(steps.tiles[step]), self.tiles)
        places: Integers = (int(steps.first_tile[step]) + np.arange(count, dtype=np.int64)) % self.tiles
        return places + int(steps.ipu[step]) * self.tiles

    def _spread(self, where: Integers, value: int | Integers) -> Integers:
        held = np.zeros(self.all_tiles, dtype=np.int64)
        held[where] = value
        return held

    def _list_vertices(self, step: int, where: Integers) -> tuple[VertexInstances, ...]:
        steps = self.profile.steps
        count = int(steps.vertices_per_tile[step])
        if not steps.vertex[step] or not count:
            return ()
        size = int(steps.state_bytes[step]) // count
        known = steps.by_tile.get(step)
        if known is not None and known.vertices is not None:
            first = int(steps.ipu[step]) * self.tiles
            by_tile = self._spread(np.arange(first, first + self.tiles), known.vertices)
            return (VertexInstances(VertexType(steps.vertex[step], size), by_tile),)
        return (VertexInstances(VertexType(steps.vertex[step], size), self._spread(where, count)),)

    def _find_variables(self, step: int) -> tuple[UnloweredVariable, ...]:
        op = int(self.profile.steps.op[step])
        if op < 0:
            return ()
        record = self.profile.ops[op]
        return tuple(self.variables[index] for index in dict.fromkeys((*record.reads, *record.writes)))
