"""What an insight is, and the figures that the rules share.

In: a `Profile`. Out: `Finding`, and a `Case` that adds up the cycles of a call once for all rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from openipu.report.profile import Floats, OpRecord, Profile
from openipu.report.short import describe_finding, list_findings_as_html
from openipu.report.summary import element_bytes_by_op
from openipu.report.units import format_share

EVIDENCE_SHOWN = 5


class Level(StrEnum):
    """How much a finding matters."""

    PROBLEM = "problem"  # the program does not run, or most of the time is lost
    ADVICE = "advice"  # a change would pay
    NOTE = "note"  # good to know


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a finding rests on: a tensor, an op, an IPU."""

    name: str
    figure: str
    line: str = ""  # of the user's code
    link: Mapping[str, int | str] = field(default_factory=dict)  # a view of the web report and what to choose in it


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """What a rule found: the number, why it is so, and what to do about it."""

    rule: str
    topic: str  # "memory" or "time"
    level: Level
    title: str
    value: float  # bytes, a share or a ratio, as `unit` says
    unit: str
    cause: str
    remedy: str
    link: Mapping[str, int | str]
    evidence: tuple[Evidence, ...] = ()
    takes_memory: bool = False  # the remedy needs more of it, so it is none for a program that does not fit

    def __repr__(self) -> str:
        return describe_finding(self)

    def _repr_html_(self) -> str:
        return list_findings_as_html([self])


class Findings(tuple[Finding, ...]):
    """Several, which show themselves below each other."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "No findings"

    def _repr_html_(self) -> str:
        return list_findings_as_html(self)


class Case:
    """A profile with the sums that several rules ask for. Cycles of all IPUs are added up."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.steps = profile.steps

    @cached_property
    def call_cycles(self) -> Floats:
        """Cycles of each step in one call."""
        executions = {phase: self.profile.executions(phase) for phase in set(self.steps.phase)}
        times = np.array([executions[phase] for phase in self.steps.phase], dtype=np.float64)
        cycles: Floats = self.steps.cycles * np.where(self.steps.per_call > 0, 1.0, times)
        return cycles

    @cached_property
    def busy_cycles(self) -> float:
        """All of them."""
        return float(self.call_cycles.sum())

    @cached_property
    def kinds(self) -> np.ndarray[tuple[int, ...], np.dtype[np.str_]]:
        return np.array(self.steps.kind, dtype=np.str_)

    @cached_property
    def element_bytes(self) -> dict[int, int]:
        return element_bytes_by_op(self.profile)

    def share_of_kind(self, kind: str) -> float:
        """The share of a call that steps of one kind take."""
        return self.share(float(self.call_cycles[self.kinds == kind].sum()))

    def share(self, cycles: float) -> float:
        return cycles / self.busy_cycles if self.busy_cycles else 0.0

    def cycles_by_op(self, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
        """Cycles of each op in one call, over the chosen steps only."""
        own = chosen & (self.steps.op >= 0)
        cycles: Floats = np.bincount(
            self.steps.op[own], weights=self.call_cycles[own], minlength=len(self.profile.ops)
        ).astype(np.float64)
        return cycles

    def list_ops(self, cycles: Floats, figure: str = "") -> tuple[Evidence, ...]:
        """The ops with most cycles, each with its share of a call."""
        order = np.argsort(-cycles, kind="stable")[:EVIDENCE_SHOWN]
        return tuple(
            describe_op(self.profile.ops[int(op)], f"{format_share(self.share(float(cycles[op])))}{figure}")
            for op in order
            if cycles[op] > 0
        )


def describe_op(op: OpRecord, figure: str) -> Evidence:
    """An op as evidence: its name with its module, its line, and its place in the trace."""
    short = op.op.removeprefix("aten.").removesuffix(".default")
    name = f"{short} in {op.module}" if op.module else short
    return Evidence(name, figure, str(op.line or ""), {"view": "trace", "op": op.index})


def join_names(names: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    listed = list(names)
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1]))) if listed else ""
