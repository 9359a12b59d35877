"""Whether a compilation in the background gets in the way of the steps that it is meant to make quicker.

In: a `RunPlan`. Out: mean seconds of a step before, during and after a compilation, with two threads on two cores.
Means, not medians: a step that stalls counts for as long as it stalls.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.cells import OPENIPU, Cell
from bench.models import MODELS
from bench.plan import RunPlan
from bench.processes import WorkerError, WorkerProcess

RUNNER = "bench.work.background:BackgroundRunner"
DEFAULT_MODELS = ("cnn", "bert_small")
BEFORE_SECONDS = 15.0
AFTER_SECONDS = 15.0
LIMIT_SECONDS = 900.0  # a compiler that gets no idle time is not waited for
THREADS = "2"
BAR = 1.1  # a step beside a compilation, over one before it


def measure(plan: RunPlan) -> None:
    """Measure the models that were asked for; if that is all of them, the small ones."""
    chosen = DEFAULT_MODELS if set(plan.models) == set(MODELS) else plan.models
    for model in chosen:
        if not plan.is_wanted("background", model):
            continue
        plan.say(f"steps beside a compilation: {model}")
        with tempfile.TemporaryDirectory(prefix="background-") as directory:
            environment = OPENIPU.make_environment(Path(directory))
            environment |= {"OPENIPU_COMPILE_AFTER": str(BEFORE_SECONDS), "OMP_NUM_THREADS": THREADS}
            log = plan.logs / f"background-{model}.log"
            try:
                with WorkerProcess(RUNNER, environment, log, cell=Cell(model).key) as worker:
                    found = worker.call("observe", limit_seconds=LIMIT_SECONDS, after_seconds=AFTER_SECONDS)
            except WorkerError as error:
                found = {"error": str(error)}
        plan.store.merge("background", model, found)
