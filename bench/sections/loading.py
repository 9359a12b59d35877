"""Training from data loaders: poptorch's in asynchronous mode with openipu, PyTorch's with plain PyTorch.

In: a `RunPlan`. Out: seconds a batch of loading alone and of training, round by round.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from bench.cells import COMPILE, EAGER, OPENIPU
from bench.plan import RunPlan
from bench.processes import WorkerError, WorkerProcess
from bench.turns import Player, take_turns

WORKERS = 2
WAYS = (EAGER, COMPILE, OPENIPU)


def measure(plan: RunPlan) -> None:
    """Load alone, then train, in turns of one epoch each."""
    for training in (False, True):
        key = "training" if training else "loading"
        if not plan.is_wanted("loading", key):
            continue
        plan.say(f"data loading: {key}")
        result: dict[str, Any] = {"ways": {}, "batch": 0}
        with contextlib.ExitStack() as stack:
            players = {}
            for way in WAYS:
                # Who runs the model makes no difference where none is run.
                if way.name not in plan.ways or (not training and way not in (EAGER, OPENIPU)):
                    continue
                log = plan.logs / f"loading-{way.name.replace(' ', '-')}.log"
                made = "bench.work.loading:LoaderRunner"
                arguments = {"way": way.name, "training": training, "workers": WORKERS}
                try:
                    worker = WorkerProcess(made, way.make_environment(plan.cache), log, **arguments)
                    stack.callback(worker.stop)
                    result["batch"] = worker.call("prepare")
                except WorkerError as error:
                    result["ways"][way.name] = {"error": str(error)}
                    continue
                players[way.name] = Player(functools.partial(worker.call, "run_epoch"))
            if players:
                seconds = take_turns(players, plan.budget)
                result["ways"] |= {name: {"seconds": values} for name, values in seconds.items()}
        plan.store.merge("loading", key, result)
