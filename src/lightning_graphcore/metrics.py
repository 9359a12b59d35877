"""`IPUMetrics`: a callback that gives a Trainer's loggers the figures of its training program.

In: `Trainer(callbacks=[IPUMetrics()], logger=TensorBoardLogger(…) or WandbLogger(…))`. Out: what the plan says, once
for each program, and what was measured on this host, at every step that the Trainer logs.
"""

from __future__ import annotations

from typing import Any

from lightning_graphcore._registration.packages import Package, TwinMeta
from lightning_graphcore._statistics import find_compiled, list_scalars
from openipu.tracking import RunMeter, describe_plan


def __getattr__(name: str) -> Any:
    if name == "IPUMetrics":
        from lightning_graphcore._registration.front_end import find_class

        return find_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class MetricsCore(metaclass=TwinMeta):
    """Logs `ipu/…`, modelled, and `host/…`, measured: calls, seconds of a call, samples a second, share of the time.

    every_n_steps: how often; None is the Trainer's `log_every_n_steps`.
    """

    package: Package

    def __init__(self, every_n_steps: int | None = None) -> None:
        super().__init__()
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"every_n_steps is {every_n_steps}: give the number of steps between two logs, 1 or more.")
        self._every_n_steps = every_n_steps
        self._meter = RunMeter()
        self._told: set[int] = set()  # executables whose plan was logged

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not hasattr(trainer.strategy, "list_statistics"):
            raise self.package.configuration_error(
                "IPUMetrics logs what IPU programs do, and this Trainer runs none. Use accelerator='ipu'."
            )
        self._told.clear()
        self._meter.start()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.fit_loop.epoch_loop._batches_that_stepped  # as Lightning numbers what it logs, from 0
        if (step + 1) % (self._every_n_steps or max(1, trainer.log_every_n_steps)) == 0:
            self._log(trainer, step)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._log(trainer, max(0, trainer.fit_loop.epoch_loop._batches_that_stepped - 1))
        self._meter.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._meter.stop()

    def _log(self, trainer: Any, step: int) -> None:
        stages = self.package.find("trainer.states.RunningStage")
        compiled = find_compiled(trainer.strategy.programs.get(stages.TRAINING))
        if compiled is None:  # a step that was skipped
            return
        number = compiled.executable.number
        # A strategy that reports has given the plan to the loggers itself.
        tells_plan = number not in self._told and not trainer.strategy.report
        self._told.add(number)
        figures = describe_plan(compiled.plan)
        scalars = self._meter.take_program(number, figures, ".")
        if tells_plan:
            scalars |= list_scalars(compiled.plan)
        for logger in trainer.loggers if scalars else ():
            named = {name.replace(".", logger.group_separator): value for name, value in scalars.items()}
            logger.log_metrics(named, step=step)
