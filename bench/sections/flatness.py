"""Whether memory stays flat over thousands of steps.

In: a `RunPlan`. Out: resident bytes of the CNN's training at every hundredth of 2,000 steps, in each way.
"""

from __future__ import annotations

from typing import Any

from bench.cells import EAGER, OPENIPU, Cell
from bench.plan import RunPlan
from bench.processes import WorkerError
from bench.sections.steps import prepare_way

STEPS = 2000
STRIDE = 100
SETTLED_AFTER = 500  # steps: pools of memory have their size then


def measure(plan: RunPlan) -> None:
    """Measure every way that was asked for."""
    cell = Cell("cnn")
    for way in (EAGER, OPENIPU):
        if way.name not in plan.ways or not plan.is_wanted("flatness", way.name):
            continue
        plan.say(f"memory over {STEPS} steps: {way.name}")
        try:
            worker, _ = prepare_way(cell, way, plan)
        except WorkerError as error:
            plan.store.merge("flatness", way.name, {"error": str(error)})
            continue
        readings: dict[str, Any] = {"steps": [], "resident_bytes": []}
        with worker:
            worker.call("begin_steady_state")
            for step in range(STRIDE, STEPS + 1, STRIDE):
                worker.call("run", steps=STRIDE)
                readings["steps"].append(step)
                readings["resident_bytes"].append(worker.call("read_memory")["resident_bytes"])
        plan.store.merge("flatness", way.name, readings)
