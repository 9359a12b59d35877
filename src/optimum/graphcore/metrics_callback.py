"""`IPUMetricsCallback`: gives the figures of a training program to everything that an `IPUTrainer` reports to.

In: `IPUTrainer(…, callbacks=[IPUMetricsCallback()])`, with `report_to=["tensorboard", "wandb"]` or whatever
Transformers knows. Out: scalars in the trainer's own logs: what the plan says, once for each program, and what was
measured on this host since the last log.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from openipu.tracking import RunMeter, describe_plan, list_plan_scalars


class IPUMetricsCallback(TrainerCallback):
    """Adds `ipu/…`, modelled, and `host/…`, measured: calls, seconds of a call, samples a second, share of the time."""

    def __init__(self) -> None:
        self._meter = RunMeter()
        self._told: set[int] = set()  # executables whose plan was logged

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._told.clear()
        self._meter.start()

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._meter.stop()

    def list_scalars(self, executor: Any) -> dict[str, float]:
        """What the trainer adds to its logs: of the program that trains, since the last time."""
        compiled = getattr(executor, "_compiled", None)
        if compiled is None:
            return {}
        number, figures = compiled.executable.number, describe_plan(compiled.plan)
        scalars = self._meter.take_program(number, figures)
        if number not in self._told:
            self._told.add(number)
            scalars |= list_plan_scalars(figures)
        return scalars
