"""What can be done about a program that does not fit: settings, and what each saves and costs, planned anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from openipu.plan import Plan


class LeverKind(StrEnum):
    """The levers, in the order in which they are tried: those that cost least first."""

    MEMORY_PROPORTION = "available-memory proportion"
    HALF_PARTIALS = "half partials"
    HALF_PRECISION = "half precision"
    SHARED_STATE = "optimizer state shared by replicas"
    STATE_OFF_CHIP = "optimizer state off chip"
    RECOMPUTE = "recomputation"
    CHECKPOINTS = "recomputation with checkpoints"
    SERIALISED_PRODUCTS = "serialised matrix products"
    MICRO_BATCH = "micro-batch"
    ACTIVATIONS_OFF_CHIP = "activations off chip"
    WEIGHTS_OFF_CHIP = "weights off chip"
    MORE_IPUS = "more IPUs"


class FrontEnd(StrEnum):
    """In whose words a setting is written."""

    OPENIPU = "openipu"
    POPTORCH = "poptorch"
    OPTIMUM = "optimum.graphcore"
    LIGHTNING = "lightning"
    POPART = "popart"
    TENSORFLOW = "tensorflow"
    KERAS = "keras"
    PADDLE = "paddle"


@dataclass(frozen=True, slots=True)
class Setting:
    """One lever with a value."""

    kind: LeverKind
    value: float | int | str | None = None
    rounds: int | None = None  # micro-batches in a call, where their number changes as well


@dataclass(frozen=True, eq=False)
class LeverResult:
    """One setting, or several together, and the plan that they lead to."""

    settings: tuple[Setting, ...]
    plan: Plan
    before: Plan

    @property
    def fits(self) -> bool:
        return self.plan.fit.fits

    @property
    def title(self) -> str:
        return " and ".join(describe_setting(setting) for setting in self.settings)

    @property
    def saved_tile_bytes(self) -> int:
        """How much less the fullest tile needs. Negative where it needs more."""
        return self.before.fit.peak_bytes - self.plan.fit.peak_bytes

    @property
    def saved_bytes(self) -> int:
        """The same, summed over the tiles of one replica, each at its own worst step."""
        return self.before.fit.needed_bytes - self.plan.fit.needed_bytes

    @property
    def paid_cycles(self) -> float:
        """Cycles more for each sample, over all IPUs in use: twice the IPUs for the same time cost twice as much."""
        return count_ipu_cycles(self.plan) - count_ipu_cycles(self.before)

    @property
    def slowdown(self) -> float:
        """Time for a sample, against the plan before: 1.1 is 10 % more."""
        before, after = self.before.timing.samples_per_second, self.plan.timing.samples_per_second
        return before / after if after else float("inf")

    def describe(self) -> dict[str, Any]:
        """Plain data, with units in the names."""
        return {
            "lever": self.title,
            "settings": [
                {"kind": str(entry.kind), "value": entry.value, "rounds": entry.rounds} for entry in self.settings
            ],
            "fits": self.fits,
            "peak_tile_bytes": self.plan.fit.peak_bytes,
            "saved_tile_bytes": self.saved_tile_bytes,
            "saved_bytes": self.saved_bytes,
            "paid_ipu_cycles_per_sample": self.paid_cycles,
            "slowdown": self.slowdown,
        }


class Limit(StrEnum):
    """What ended the search for advice before everything was tried."""

    PLANS = "plans"
    TIME = "time"


@dataclass(frozen=True, eq=False)
class Advice:
    """All levers that were tried, the best first: what fits before what does not, then what costs least."""

    plan: Plan
    levers: tuple[LeverResult, ...]
    words: Mapping[FrontEnd, str]  # the one line that makes it fit, by front end; empty where nothing does
    seconds: float
    plans_made: int
    untried: tuple[str, ...] = ()  # what a limit left no room for
    stopped_by: Limit | None = None  # that limit
    unreachable: tuple[LeverKind, ...] = ()  # levers that need the model captured again, where only a program was given

    @property
    def complete(self) -> bool:
        """Was everything tried that might have helped?"""
        return not self.untried and not self.unreachable

    @property
    def best(self) -> LeverResult | None:
        """The lever to pull: the first one, if it makes the program fit."""
        return self.levers[0] if self.levers and self.levers[0].fits else None

    def describe(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "change": {str(front_end): line for front_end, line in self.words.items()},
            "levers": [lever.describe() for lever in self.levers],
            "complete": self.complete,
            "untried": list(self.untried),
            "stopped_by": None if self.stopped_by is None else str(self.stopped_by),
            "unreachable": [str(kind) for kind in self.unreachable],
            "plans_made": self.plans_made,
            "seconds": self.seconds,
        }


def count_ipu_cycles(plan: Plan) -> float:
    """Cycles of all IPUs in use for one sample."""
    timing = plan.timing
    return timing.call_cycles * plan.ipus * plan.options.replicas / max(1, timing.samples_per_call)


def describe_setting(setting: Setting) -> str:
    """A few words: "micro-batch 4"."""
    if setting.kind is LeverKind.MORE_IPUS:
        return f"{setting.value} IPUs in a pipeline"
    if setting.kind is LeverKind.SERIALISED_PRODUCTS:
        return f"matrix products in {setting.value} pieces"
    return f"{setting.kind} {setting.value:g}" if isinstance(setting.value, int | float) else str(setting.kind)
