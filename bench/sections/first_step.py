"""The wait for the first result in a fresh process: with empty caches, and with those of an earlier process.

In: a `RunPlan`. Out: for each model and way, seconds of imports, of building the model, and from the wrapper to the
first result, cold and warm, with one steady step for comparison.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.cells import COMPILE, EAGER, OPENIPU, Cell, Way
from bench.models import MODELS
from bench.plan import RunPlan
from bench.processes import WorkerError
from bench.sections.steps import prepare_way

DEFAULT_MODELS = ("cnn", "lstm", "bert_small", "bert_base")
WARM_PROCESSES = 3


def measure(plan: RunPlan) -> None:
    """Measure training of the models that were asked for; if that is all of them, of some that stand for the rest."""
    chosen = DEFAULT_MODELS if set(plan.models) == set(MODELS) else plan.models
    for model in chosen:
        for way in (EAGER, COMPILE, OPENIPU):
            key = f"{model}-{way.name}"
            if way.name in plan.ways and plan.is_wanted("first_step", key):
                plan.say(f"first step of {model}: {way.name}")
                plan.store.merge("first_step", key, measure_way(Cell(model), way, plan))


def measure_way(cell: Cell, way: Way, plan: RunPlan) -> dict[str, Any]:
    """A process with empty caches, then some that find what the first one left."""
    with tempfile.TemporaryDirectory(prefix="first-step-") as directory:
        own = replace(plan, cache=Path(directory))
        try:
            cold = measure_process(cell, way, own)
            warm = [measure_process(cell, way, own) for _ in range(WARM_PROCESSES)]
        except WorkerError as error:
            return {"error": str(error)}
    # Nothing is kept for eager PyTorch: its second process only finds the files of its libraries in memory.
    return {
        "cold": cold,
        "warm": {name: statistics.median(entry[name] for entry in warm) for name in warm[0]},
    }


def measure_process(cell: Cell, way: Way, plan: RunPlan) -> dict[str, float]:
    """The seconds of one fresh process. It ends only when nothing is left to do for its successors."""
    worker, figures = prepare_way(cell, way, plan)
    with worker:
        figures["steady_seconds"] = statistics.median(worker.call("run", steps=1) for _ in range(3))
    figures["result_seconds"] = figures["wrap_seconds"] + figures["first_seconds"]
    figures["own_seconds"] = figures["result_seconds"] - figures["steady_seconds"]
    return figures
