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

from openipu.errors import ArchiveError
from openipu.graph import RunOptions, SourceLine
from openipu.machine import System
from openipu.plan.types import Culprit, Fit, Pipeline, PipelineStage, Plan, Timing

FIGURES_VERSION = 2

_DETAILS = ("ops", "steps", "variables", "memory")


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
        """The same plan for options that differ in what planning does not read, such as the tier."""
        figures = {name: value for name, value in self.__dict__.items() if name not in ("system", "options", "_make")}
        return DeferredPlan(figures, self.system, options, self.__dict__["_make"])


def replace_options(plan: Plan, options: RunOptions) -> Plan:
    """A plan for options that differ in what planning does not read, such as the tier. Plans nothing."""
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
    try:
        document = json.loads(content)
        if document["version"] != FIGURES_VERSION:
            raise ArchiveError(f"the figures have version {document['version']}, and this is {FIGURES_VERSION}")
        figures = {
            "name": str(document["name"]),
            "micro_batch": int(document["micro_batch"]),
            "_ipus": int(document["ipus"]),
            "fit": _make_fit(document["fit"]),
            "timing": Timing(**document["timing"]),
            "_cycles_by_kind": {str(kind): float(cycles) for kind, cycles in document["cycles_by_kind"].items()},
            "guessed_ops": {str(name): int(count) for name, count in document["guessed_ops"].items()},
            "planning_seconds": float(document["planning_seconds"]),
            "passes": {str(name): float(seconds) for name, seconds in document["passes"].items()},
            "warnings": tuple(str(text) for text in document["warnings"]),
            "pipeline": None if document["pipeline"] is None else _make_pipeline(document["pipeline"]),
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"the figures of a plan are damaged ({error})") from error
    return DeferredPlan(figures, system, options, make)


def _make_fit(described: Mapping[str, Any]) -> Fit:
    culprits = tuple(
        Culprit(**{**culprit, "line": None if culprit["line"] is None else SourceLine(**culprit["line"])})
        for culprit in described["culprits"]
    )
    return Fit(**{**described, "culprits": culprits})


def _make_pipeline(described: Mapping[str, Any]) -> Pipeline:
    return Pipeline(
        **{
            **described,
            "stages": tuple(PipelineStage(**stage) for stage in described["stages"]),
            "fill_cycles": tuple(described["fill_cycles"]),
            "drain_cycles": tuple(described["drain_cycles"]),
        }
    )


def _convert_number(value: Any) -> Any:
    """numpy's numbers, which some figures are."""
    return value.item()
