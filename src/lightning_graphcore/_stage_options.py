"""Options for each stage: the user's own, or made from the Trainer's arguments.

In: `training_opts`, `inference_opts`, devices, accumulation, a seed. Out: `poptorch.Options`, and a Trainer whose loops
count one update for each batch of the loader, because the device does the accumulation.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import poptorch
from lightning_graphcore._hosting import HostMixin

_ENGINE_VARIABLE = "POPLAR_ENGINE_OPTIONS"


class OptionsMixin(HostMixin):
    """The part of a strategy that knows its options."""

    device_iterations: int
    autoreport: bool
    autoreport_dir: str | None
    strict: bool
    poptorch_models: dict[Any, poptorch.PoplarExecutor]

    def _keep_options(self, training: poptorch.Options | None, inference: poptorch.Options | None) -> None:
        self._given_options = {True: training, False: inference}
        self._made_options: dict[bool, poptorch.Options] = {}
        self._accumulation: int | None = None  # the Trainer's own number, while the device accumulates
        self._engine_options: str | None = None  # of the environment, while ours are there

    @property
    def training_opts(self) -> poptorch.Options:
        return self._find_options(training=True)

    @property
    def inference_opts(self) -> poptorch.Options:
        return self._find_options(training=False)

    def _find_options(self, training: bool) -> poptorch.Options:
        given = self._given_options[training]
        if given is not None:
            return given
        if training not in self._made_options:
            self._made_options[training] = self._make_options(training)
        return self._made_options[training]

    @property
    def replication_factor(self) -> int:
        """Replicas of the running stage; before there is one, those of the options or devices."""
        stage = self.lightning_module.trainer.state.stage if self.lightning_module and self.poptorch_models else None
        if stage in self.poptorch_models:
            return int(self.poptorch_models[stage]._options.replication_factor)
        given = self._given_options[True] or self._given_options[False]
        return int(given.replication_factor) if given else len(self.parallel_devices or [0])

    def _make_options(self, training: bool) -> poptorch.Options:
        options = poptorch.Options()
        options.deviceIterations(self.device_iterations)
        options.replicationFactor(len(self.parallel_devices or [0]))
        trainer = self._find_trainer()
        if training and trainer is not None:
            options.Training.gradientAccumulation(self._accumulation or trainer.accumulate_grad_batches)
        seed = os.environ.get("PL_GLOBAL_SEED")
        if seed:
            options.randomSeed(int(seed))
        if trainer is None or not trainer.progress_bar_callback:
            options.showCompilationProgressBar(False)
        return options

    def _take_accumulation(self) -> None:
        """One batch of the loader is one update: the loops must not count otherwise."""
        trainer = self._find_trainer()
        if trainer is not None and self._accumulation is None and not self.strict:
            self._accumulation, trainer.accumulate_grad_batches = trainer.accumulate_grad_batches, 1

    def _check_accumulation(self) -> None:
        trainer = self._find_trainer()
        if not self.strict and trainer.accumulate_grad_batches != 1:
            raise self.package.configuration_error(
                f"A callback set accumulate_grad_batches to {trainer.accumulate_grad_batches} during training "
                "(GradientAccumulationScheduler and StochasticWeightAveraging do), and accumulation is compiled. Set "
                "Trainer(accumulate_grad_batches=…) once, and leave such callbacks out."
            )

    def _start_reports(self) -> None:
        if not self.autoreport:
            return
        settings: dict[str, Any] = {"autoReport.all": True}
        if self.autoreport_dir is not None:
            Path(self.autoreport_dir).mkdir(parents=True, exist_ok=True)
            settings["autoReport.directory"] = str(self.autoreport_dir)
        self._engine_options = os.environ.get(_ENGINE_VARIABLE, "")
        os.environ[_ENGINE_VARIABLE] = json.dumps(settings)

    def _release_options(self) -> None:
        """After a run the Trainer and the environment are as before, and the next run makes options anew."""
        trainer = self._find_trainer()
        if trainer is not None and self._accumulation is not None:
            trainer.accumulate_grad_batches = self._accumulation
        self._accumulation = None
        self._made_options.clear()
        if self._engine_options is not None:
            if self._engine_options:
                os.environ[_ENGINE_VARIABLE] = self._engine_options
            else:
                os.environ.pop(_ENGINE_VARIABLE, None)
            self._engine_options = None
