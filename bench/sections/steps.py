"""Steady steps of every model in every way, in turns, with the host's own rates between them.

In: a `RunPlan`. Out: for each cell, seconds of every round and way, memory, FLOPs, and the host's rates in the same
rounds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.cells import EAGER, OPENIPU, Cell, Way
from bench.models import MODELS
from bench.plan import RunPlan
from bench.processes import WorkerError, WorkerProcess
from bench.turns import Budget, Player, choose_pace, choose_steps, take_turns

RUNNER = "bench.work.steps:StepRunner"
METER = "bench.work.counting:HostMeter"
COMPILER = "bench.work.shared_code:SharedCode"
LONG_STEP_SECONDS = 5.0
LONG_ROUND_SECONDS = 20.0
LONG_ROUNDS = 4  # in two of them a slow way plays


def measure(plan: RunPlan) -> None:
    """Measure all cells that the plan asks for."""
    _prepare_shared_code(plan)
    for model in plan.models:
        for variant in plan.variants:
            cell = Cell.parse(f"{model}-{variant}")
            if plan.is_wanted("steps", cell.key):
                started = time.perf_counter()
                plan.store.merge("steps", cell.key, measure_cell(cell, plan))
                plan.say(f"{cell.key}: {time.perf_counter() - started:.0f} s")


def _prepare_shared_code(plan: RunPlan) -> None:
    """Compile what all programs share, whichever of them comes first."""
    with WorkerProcess(COMPILER, OPENIPU.make_environment(plan.cache), plan.logs / "shared_code.log") as worker:
        plan.say("code that programs share: " + ("compiled" if worker.call("compile") else "no compiler"))


def measure_cell(cell: Cell, plan: RunPlan) -> dict[str, Any]:
    """Prepare every way one after the other, then let them take turns."""
    with contextlib.ExitStack() as stack:
        workers: dict[str, WorkerProcess] = {}
        ways: dict[str, dict[str, Any]] = {}
        for way in plan.choose_ways(cell):
            plan.say(f"{cell.key}: preparing {way.name}")
            try:
                worker, ways[way.name] = prepare_way(cell, way, plan)
            except WorkerError as error:
                ways[way.name] = {"error": str(error)}
                plan.say(f"{cell.key}: {way.name} failed: {error}")
                continue
            workers[way.name] = worker
            stack.callback(worker.stop)
        result: dict[str, Any] = {"ways": ways}
        if not workers:
            return result
        rates: list[dict[str, float]] = []
        limited = is_limited(cell) and EAGER.name in workers
        meter = stack.enter_context(_start_meter(plan)) if limited else None
        steps = choose_steps({name: ways[name]["step_seconds"] for name in workers})
        result["steps_a_turn"] = steps
        for worker in workers.values():
            worker.call("begin_steady_state")

        def measure_host() -> None:
            if meter is not None:
                rates.append(meter.call("measure"))

        players = _make_players(workers, ways, steps)
        budget = choose_budget(plan.budget, sum(ways[name]["step_seconds"] for name in workers))
        seconds = take_turns(players, budget, after_round=measure_host)
        for name, worker in workers.items():
            if "error" not in ways[name]:
                ways[name] |= {"seconds": seconds[name], **worker.call("read_memory")}
        if (
            limited and "error" not in ways[EAGER.name]
        ):  # at the end: counting is a step of another kind, and leaves its own traces in memory
            result |= workers[EAGER.name].call("count_work")
            result["host"] = rates
        return result


def is_limited(cell: Cell) -> bool:
    """Whether the host's limit says something: for models that are bound by float32 products."""
    return MODELS[cell.model].large and cell.precision == "float32" and cell.accumulation == 1


def prepare_way(cell: Cell, way: Way, plan: RunPlan) -> tuple[WorkerProcess, dict[str, Any]]:
    """A worker that has run its first steps, and how long they took."""
    log = plan.logs / f"{cell.key}-{way.name.replace(' ', '-')}.log"
    worker = WorkerProcess(RUNNER, way.make_environment(plan.cache), log, cell=cell.key, way=way.name)
    try:
        figures = {**worker.call("prepare"), **worker.call("settle")}
        # Where a step lasts long, the first one of the eager loop has said enough of its length.
        if way == EAGER and figures["first_seconds"] > LONG_STEP_SECONDS:
            figures["step_seconds"] = figures["first_seconds"]
        else:
            figures["step_seconds"] = worker.call("run", steps=1)
            if figures["step_seconds"] < LONG_STEP_SECONDS:
                figures["step_seconds"] = worker.call("run", steps=1)
    except WorkerError:
        worker.stop()
        raise
    return worker, figures


def _make_players(workers: dict[str, WorkerProcess], ways: dict[str, dict[str, Any]], steps: int) -> dict[str, Player]:
    players = {}
    for name, worker in workers.items():
        others = sum(ways[other]["step_seconds"] for other in workers if other != name)
        pace = choose_pace(ways[name]["step_seconds"], others) if len(workers) > 1 else 1
        own_steps = 1 if pace > 1 else steps  # one step of a slow way is long enough
        players[name] = Player(make_play(worker, ways[name], own_steps), pace)
    return players


def make_play(worker: WorkerProcess, figures: dict[str, Any], steps: int) -> Callable[[], float | None]:
    """A turn of so many steps; a way that fails is out, and says so among its figures."""

    def play() -> float | None:
        if "error" in figures:
            return None
        try:
            seconds: float = worker.call("run", steps=steps, warm=1 if steps > 1 else 0)
        except WorkerError as error:  # the others go on
            figures["error"] = str(error)
            return None
        return seconds

    return play


def choose_budget(budget: Budget, round_seconds: float) -> Budget:
    """Fewer rounds where one lasts long: steps of many seconds differ less from each other."""
    if round_seconds > LONG_ROUND_SECONDS:
        return replace(budget, minimum_rounds=min(budget.minimum_rounds, LONG_ROUNDS))
    return budget


def _start_meter(plan: RunPlan) -> WorkerProcess:
    return WorkerProcess(METER, EAGER.make_environment(plan.cache), plan.logs / "host.log")
