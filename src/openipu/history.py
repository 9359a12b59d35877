"""What this process compiled, for the summary at its end: figures, free of torch.

In: plans, as `session` makes them. Out: one small record per program that a reader could tell apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openipu.plan.types import Fit, Plan, Timing
    from openipu.run import Executable

CULPRITS = 3  # that the summary names where a program does not fit


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """What the summary tells of a program: figures only, so that a destroyed model and its plan are really gone."""

    name: str
    system: str
    fit: Fit  # with the largest culprits at most
    timing: Timing
    cycles_by_kind: tuple[tuple[str, float], ...]
    guessed_share: float  # of the cycles of a call
    warnings: tuple[str, ...]
    report_directory: Path | None  # where the summary is to add a report; None: nowhere


@dataclass(frozen=True, slots=True)
class OpUse:
    """An op of a compiled program and the user's line that led to it, if it is known."""

    op: str
    file: str = ""
    line: int = 0


@dataclass
class History:
    """What this process compiled, in order: the summary at the end of `openipu run` reads it.

    Programs that the summary cannot tell apart are one entry with a count: a process that compiles and destroys all day
    does not grow.
    """

    compiled: Counter[CompiledProgram] = field(default_factory=Counter)  # in the order of their first compilation
    profiles: dict[CompiledProgram, Path] = field(default_factory=dict)  # where the last profile of each was written
    verified: Counter[tuple[str, bool]] = field(default_factory=Counter)  # calls by program, and whether they agreed
    executables: list[Executable] | None = None  # all of them, for those who export; None: nobody does
    ops: Counter[OpUse] | None = None  # of all compiled programs; None: nobody wants them, and no detail is planned

    def add(self, plan: Plan, profile_directory: Path | None, *, reported: bool) -> None:
        """Write down a program that was compiled, without keeping its plan. Each that is to be reported is an entry."""
        program = _sum_up(plan, profile_directory if reported else None)
        self.compiled[program] += 1
        if profile_directory is not None:
            self.profiles[program] = profile_directory
        if self.ops is not None:
            for op in plan.ops:
                self.ops[OpUse(op.op, op.line.file, op.line.line) if op.line else OpUse(op.op)] += 1

    def note_verified(self, program: str, agrees: bool) -> None:
        """A call was compared with the reference engine."""
        self.verified[program, agrees] += 1


def _sum_up(plan: Plan, report_directory: Path | None) -> CompiledProgram:
    cycles = plan.cycles_by_kind
    whole = sum(cycles.values()) if plan.ipus > 1 else plan.timing.call_cycles
    return CompiledProgram(
        name=plan.name,
        system=plan.system.name,
        fit=replace(plan.fit, culprits=() if plan.fit.fits else plan.fit.culprits[:CULPRITS]),
        timing=plan.timing,
        cycles_by_kind=tuple(cycles.items()),
        guessed_share=plan.timing.guessed_cycles / whole if whole else 0.0,
        warnings=plan.warnings,
        report_directory=report_directory,
    )


history = History()
