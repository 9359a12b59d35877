"""The trainer's state, with what the plan says of the programs.

In: a `TrainerState`, plans. Out: an `IPUTrainerState`; its file can be read by Transformers, too.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from transformers.trainer_callback import TrainerState

from openipu.plan import Plan
from openipu.saving import save_text

_OWN = ("start_time", "ipu")
_KEY = "IPUTrainerState"  # where Transformers keeps what it does not know, and leaves it alone


@dataclass
class IPUTrainerState(TrainerState):
    """`start_time`: when training began. `ipu`: modelled figures of the programs, by "training" and "evaluation"."""

    start_time: float = -1.0
    ipu: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_state(cls, state: TrainerState) -> Self:
        """A state of Transformers, with its parts shared, and our own fields where a file had them."""
        values = {entry.name: getattr(state, entry.name) for entry in dataclasses.fields(state)}
        own = values["stateful_callbacks"].pop(_KEY, {}) if _KEY in values["stateful_callbacks"] else {}
        return cls(**{**values, **own})

    def save_to_json(self, json_path: str) -> None:
        """Write a file that Transformers reads: our fields stand among the states of callbacks."""
        values = dataclasses.asdict(self)
        values["stateful_callbacks"][_KEY] = {name: values.pop(name) for name in _OWN}
        save_text(Path(json_path), json.dumps(values, indent=2, sort_keys=True) + "\n")

    @classmethod
    def load_from_json(cls, json_path: str) -> Self:
        """Read a file of ours or of Transformers."""
        return cls.from_state(TrainerState.load_from_json(json_path))


def describe_plan(plan: Plan) -> dict[str, Any]:
    """What an IPU would do, by the plan. All figures are modelled, none is measured."""
    fit, timing = plan.fit, plan.timing
    return {
        "system": plan.system.name,
        "ipus": plan.ipus * plan.options.replicas,
        "replicas": plan.options.replicas,
        "samples_per_second_modelled": timing.samples_per_second,
        "call_seconds_modelled": timing.call_seconds,
        "call_cycles_modelled": timing.call_cycles,
        "fits": fit.fits,
        "fullest_tile_bytes": fit.peak_bytes,
        "tile_limit_bytes": fit.limit_bytes,
    }


def list_metrics(plan: Plan, prefix: str) -> dict[str, float]:
    """The two figures that go into the logs: throughput, and how full the fullest tile is."""
    return {
        f"{prefix}_ipu_samples_per_second_modelled": round(plan.timing.samples_per_second, 3),
        f"{prefix}_ipu_memory_share_modelled": round(plan.fit.peak_bytes / plan.fit.limit_bytes, 4),
    }


def describe_line(purpose: str, plan: Plan) -> str:
    """One line for the log."""
    verdict = "fits" if plan.fit.fits else "does not fit"
    return (
        f"IPU {purpose}: {plan.ipus * plan.options.replicas} IPU(s) of {plan.system.name}, "
        f"{plan.timing.samples_per_second:,.0f} samples/s (modelled); the program {verdict}, its fullest tile needs "
        f"{plan.fit.peak_bytes:,} of {plan.fit.limit_bytes:,} bytes."
    )
