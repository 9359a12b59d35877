"""Plans whose figures are known and whose details are planned when somebody asks for them.

In: a `Plan`, or the bytes of its figures. Out: bytes, or a `DeferredPlan`. What every run needs, whether the program
fits and how long it takes, is a few kilobytes and read at once. Operators, steps, variables and memory by tile are many
megabytes: reading them would take as long as planning them again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from openipu.errors import ArchiveError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.graph import RunOptions
from openipu.machine import System
from openipu.plan.types import Fit, Pipeline, Plan, Timing

FIGURES_VERSION = 2

_DETAILS = ("ops", "steps", "variables", "memory")
_COMPUTED = ("version", "ipus", "cycles_by_kind")  # figures that are properties of a plan, and the version


class _Figures(msgspec.Struct, frozen=True):
    """The JSON of a plan's figures."""

    version: int
    name: str
    micro_batch: int
    ipus: int
    fit: Fit
    timing: Timing
    cycles_by_kind: dict[str, float]
    guessed_ops: dict[str, int]
    planning_seconds: float
    passes: dict[str, float]
    warnings: tuple[str, ...]
    pipeline: Pipeline | None


class DeferredPlan(Plan):
    """A plan that was made before. Reading one of its details makes it again, once."""

    def __init__(
        self, figures: Mapping[str, Any], system: System, options: RunOptions, make: Callable[[], Plan]
    ) -> None:
        known = {**figures, "system": system, "options": options, "_make": make}
        for name, value in known.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @property
    def ipus(self) -> int:
        """IPUs of one replica."""
        return int(self._ipus)

    @property
    def cycles_by_kind(self) -> Mapping[str, float]:
        """Cycles of one call by kind of step."""
        return dict(self._cycles_by_kind)

    @property
    def planned(self) -> bool:
        """Were the details asked for?"""
        return "ops" in self.__dict__

    def __getattr__(self, name: str) -> Any:
        if name not in _DETAILS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        made = self.__dict__["_make"]()
        for detail in _DETAILS:
            object.__setattr__(self, detail, getattr(made, detail))
        return self.__dict__[name]

    def with_options(self, options: RunOptions) -> DeferredPlan:
        """The same plan for options that differ in what planning does not read, such as the engine."""
        figures = {name: value for name, value in self.__dict__.items() if name not in ("system", "options", "_make")}
        return DeferredPlan(figures, self.system, options, self.__dict__["_make"])


def replace_options(plan: Plan, options: RunOptions) -> Plan:
    """A plan for options that differ in what planning does not read, such as the engine. Plans nothing."""
    if isinstance(plan, DeferredPlan):
        return plan.with_options(options)
    return dataclasses.replace(plan, options=options)


def dump_figures(plan: Plan) -> bytes:
    """The figures of a plan as JSON."""
    document = {
        "version": FIGURES_VERSION,
        "name": plan.name,
        "micro_batch": plan.micro_batch,
        "ipus": plan.ipus,
        "fit": dataclasses.asdict(plan.fit),
        "timing": dataclasses.asdict(plan.timing),
        "cycles_by_kind": dict(plan.cycles_by_kind),
        "guessed_ops": dict(plan.guessed_ops),
        "planning_seconds": plan.planning_seconds,
        "passes": dict(plan.passes),
        "warnings": list(plan.warnings),
        "pipeline": None if plan.pipeline is None else dataclasses.asdict(plan.pipeline),
    }
    return json.dumps(document, separators=(",", ":"), default=_convert_number).encode()


def load_figures(content: bytes, system: System, options: RunOptions, make: Callable[[], Plan]) -> DeferredPlan:
    """A plan from its figures. `make` plans again when the details are asked for."""
    figures = parse_json(content, _Figures, Origin("A stored plan", ArchiveError, "It is planned again."))
    if figures.version != FIGURES_VERSION:
        raise ArchiveError(f"the figures have version {figures.version}, and this is {FIGURES_VERSION}")
    known = {field: getattr(figures, field) for field in figures.__struct_fields__ if field not in _COMPUTED}
    computed = {"_ipus": figures.ipus, "_cycles_by_kind": figures.cycles_by_kind}
    return DeferredPlan({**known, **computed}, system, options, make)


def _convert_number(value: Any) -> Any:
    """numpy's numbers, which some figures are."""
    return value.item()
