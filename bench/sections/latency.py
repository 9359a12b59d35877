"""Single requests of inference: one sample a call, every way in turns.

In: a `RunPlan`. Out: seconds of each request of each way.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

from bench.cells import COMPILE, EAGER, ONNX_RUNTIME, OPENIPU, Cell
from bench.plan import RunPlan
from bench.processes import WorkerError, WorkerProcess
from bench.sections.steps import RUNNER
from bench.turns import Player, take_turns

WAYS = (EAGER, COMPILE, ONNX_RUNTIME, OPENIPU)
REQUESTS = 400  # of each way: the 99th percentile is then the fourth longest
TURN_SECONDS = 0.5


def measure(plan: RunPlan) -> None:
    """Models that the plan asks for, of all ways that it names."""
    for model in plan.models:
        if plan.is_wanted("latency", model):
            plan.say(f"{model}: single requests")
            plan.store.merge("latency", model, {"ways": measure_model(model, plan)})


def measure_model(model: str, plan: RunPlan) -> dict[str, dict[str, Any]]:
    """Seconds of requests, or the error, of each way."""
    key = Cell(model, training=False).key
    ways: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        players = {}
        for way in WAYS:
            if way.name not in plan.ways:
                continue
            log = plan.logs / f"latency-{model}-{way.name.replace(' ', '-')}.log"
            try:
                worker = WorkerProcess(RUNNER, way.make_environment(plan.cache), log, cell=key, way=way.name, batch=1)
                stack.callback(worker.stop)
                worker.call("prepare")
                worker.call("settle")
                steps = max(1, math.ceil(TURN_SECONDS / worker.call("run", steps=5, warm=2)))
            except WorkerError as error:
                ways[way.name] = {"error": str(error)}
                continue
            ways[way.name] = {"seconds": []}
            players[way.name] = Player(make_play(worker, ways[way.name], min(steps, REQUESTS)))
        if players:
            take_turns(players, plan.budget)
    return ways


def make_play(worker: WorkerProcess, figures: dict[str, Any], steps: int) -> Any:
    """A turn of some requests, until there are enough of this way."""

    def play() -> float | None:
        if "error" in figures or len(figures["seconds"]) >= REQUESTS:
            return None
        try:
            found = worker.call("list_seconds", steps=steps)
        except WorkerError as error:
            figures.update(error=str(error))
            return None
        figures["seconds"] += found
        return sum(found) / len(found)

    return play
