"""The sections of the benchmark, in the order in which they run: {name: function of a `RunPlan`}."""

from __future__ import annotations

from collections.abc import Callable

from bench.plan import RunPlan
from bench.sections import background, first_step, flatness, generation, latency, loading, planning, steps

SECTIONS: dict[str, Callable[[RunPlan], None]] = {
    "steps": steps.measure,
    "latency": latency.measure,
    "generation": generation.measure,
    "first_step": first_step.measure,
    "background": background.measure,
    "flatness": flatness.measure,
    "planning": planning.measure,
    "loading": loading.measure,
}
