"""How planning time grows with the number of layers.

In: a `RunPlan`. Out: for BERT of 6, 12, 24 and 48 layers, seconds of capturing and of planning a training step.
"""

from __future__ import annotations

from bench.cells import OPENIPU
from bench.plan import RunPlan
from bench.processes import WorkerProcess
from bench.turns import Budget, Player, take_turns

LAYERS = (6, 12, 24, 48)
ROUNDS = 3


def measure(plan: RunPlan) -> None:
    """Plan each size in turn, several times. No weights are needed."""
    if not plan.is_wanted("planning", "bert"):
        return
    plan.say(f"planning BERT of {', '.join(map(str, LAYERS))} layers")
    captures: dict[str, list[float]] = {str(layers): [] for layers in LAYERS}
    made = "bench.work.planning:Planner"
    with WorkerProcess(made, OPENIPU.make_environment(plan.cache), plan.logs / "planning.log") as worker:
        worker.call("plan", layers=1)  # the first plan of a process imports

        def make_player(layers: int) -> Player:
            def play() -> float:
                figures = worker.call("plan", layers=layers)
                captures[str(layers)].append(figures["capture_seconds"])
                seconds: float = figures["plan_seconds"]
                return seconds

            return Player(play)

        players = {str(layers): make_player(layers) for layers in LAYERS}
        seconds = take_turns(players, Budget(rounds=ROUNDS, minimum_rounds=ROUNDS))
    plan.store.merge("planning", "bert", {"capture_seconds": captures, "plan_seconds": seconds})
