"""Greedy generation and beam search: openipu's programs against plain Transformers, in turns.

In: a `RunPlan`. Out: seconds of each `generate`, by size of the model and way. Other tokens than those of Transformers
are an error.
"""

from __future__ import annotations

import contextlib
from typing import Any

from bench.cells import EAGER, OPENIPU
from bench.plan import RunPlan
from bench.processes import WorkerError, WorkerProcess
from bench.turns import Player, take_turns

RUNNER = "bench.work.generation:GenerationRunner"
PLAIN = "transformers"
PATIENCE = "OPENIPU_COMPILE_AFTER"
WAYS = (PLAIN, "openipu", "openipu, 16 tokens a call")
# Size and number of beams, by the name of the row.
SEARCHES = {
    "gpt2_small": ("gpt2_small", 1),
    "gpt2": ("gpt2", 1),
    "gpt2_small, 4 beams": ("gpt2_small", 4),
    "gpt2, 4 beams": ("gpt2", 4),
}


def measure(plan: RunPlan) -> None:
    """All searches, unless they are there."""
    for name, (size, beams) in SEARCHES.items():
        if plan.is_wanted("generation", name):
            plan.say(f"{name}: generation")
            plan.store.merge("generation", name, {"ways": measure_search(size, beams, plan)})


def measure_search(size: str, beams: int, plan: RunPlan) -> dict[str, dict[str, Any]]:
    """Seconds of the rounds, or the error, of each way."""
    ways: dict[str, dict[str, Any]] = {}
    wanted: list[list[int]] | None = None
    with contextlib.ExitStack() as stack:
        players = {}
        for way in WAYS:
            environment = (EAGER if way == PLAIN else OPENIPU).make_environment(plan.cache)
            # Single functions are compiled soon enough; the program that reads prompts is not worth it here.
            environment.pop(PATIENCE, None)
            log = plan.logs / f"generation-{size}-{beams}-{way.replace(' ', '-')}.log"
            try:
                worker = WorkerProcess(RUNNER, environment, log, way=way, size=size, beams=beams)
                stack.callback(worker.stop)
                found = worker.call("list_tokens")
                worker.call("settle")
            except WorkerError as error:
                ways[way] = {"error": str(error)}
                continue
            wanted = wanted or found
            if found != wanted:  # Transformers comes first
                ways[way] = {"error": "other tokens than those of Transformers"}
                continue
            players[way] = Player(lambda worker=worker: float(worker.call("generate")))  # type: ignore[misc]
        if players:
            seconds = take_turns(players, plan.budget)
            ways |= {way: {"seconds": values} for way, values in seconds.items()}
    return ways
