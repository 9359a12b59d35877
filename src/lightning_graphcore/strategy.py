"""`IPUStrategy`: what a Trainer asks for, done by compiled programs.

In: a LightningModule and a Trainer. Out: one set of programs for each stage, run by the steps of the loops. The loops,
callbacks, loggers and checkpoints of Lightning stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch

import poptorch
from lightning_graphcore._loaders import convert_loader
from lightning_graphcore._programs.checkpointing import CheckpointMixin
from lightning_graphcore._programs.stage import InferencePrograms, StagePrograms
from lightning_graphcore._programs.training import TrainingPrograms
from lightning_graphcore._registration.arrival import is_strict_default
from lightning_graphcore._registration.packages import DESCRIPTION, TwinMeta
from lightning_graphcore._stage_options import OptionsMixin
from lightning_graphcore._statistics import describe_line, find_plan, list_scalars
from lightning_graphcore._steps.step_module import StepModule
from lightning_graphcore.precision import Clipping

_TRANSFER_HOOKS = ("transfer_batch_to_device", "on_after_batch_transfer")
_INFERENCE_STEPS = {"validate": "validation_step", "test": "test_step", "predict": "predict_step"}


def __getattr__(name: str) -> Any:
    if name == "IPUStrategy":
        from lightning_graphcore._registration.front_end import find_class

        return find_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class StrategyCore(CheckpointMixin, OptionsMixin, metaclass=TwinMeta):
    """Runs the steps of a LightningModule on IPUs.

    device_iterations: iterations in one call. autoreport, autoreport_dir: write profile.pop of each program.
    training_opts, inference_opts: `poptorch.Options` in place of those made from the Trainer's arguments.
    strict: keep the limits of the original, and its errors. report: tell modelled throughput and memory in the log.
    """

    strategy_name = "ipu_strategy"

    def __init__(
        self,
        accelerator: Any = None,
        device_iterations: int = 1,
        autoreport: bool = False,
        autoreport_dir: str | None = None,
        parallel_devices: list[torch.device] | None = None,
        cluster_environment: Any = None,
        checkpoint_io: Any = None,
        precision_plugin: Any = None,
        training_opts: poptorch.Options | None = None,
        inference_opts: poptorch.Options | None = None,
        *,
        strict: bool | None = None,
        report: bool = True,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            accelerator=accelerator,
            parallel_devices=parallel_devices,
            cluster_environment=cluster_environment,
            checkpoint_io=checkpoint_io,
            precision_plugin=precision_plugin,
        )
        self.device_iterations = device_iterations
        self.autoreport_dir = autoreport_dir
        self.strict = is_strict_default() if strict is None else strict
        # The original's documentation shows the directory alone; its code then writes nothing.
        self.autoreport = autoreport or (autoreport_dir is not None and not self.strict)
        self.report = report
        self.poptorch_models: dict[Any, poptorch.PoplarExecutor] = {}
        self.programs: dict[Any, StagePrograms] = {}
        self._keep_options(training_opts, inference_opts)
        self._zero_grad_hidden = False
        self._loaded = {}
        self._told: set[tuple[str, bool]] = set()  # stages, and whether their program fits

    # Setting up

    def connect(self, model: Any) -> None:
        super().connect(model)  # type: ignore[misc]
        self._take_accumulation()

    def setup(self, trainer: Any) -> None:
        self._take_accumulation()
        self._start_reports()
        self.accelerator.follow(self)
        self.precision_plugin.strict = self.strict
        self._check_hooks(trainer)
        super().setup(trainer)  # type: ignore[misc]
        self._destroy_programs()
        module = self.lightning_module
        self.model = StepModule(module)
        stages = self.package.find("trainer.states.RunningStage")
        if trainer.state.fn == "fit":
            self._check_optimizers()
            self._hide_zero_grad()
            training = TrainingPrograms(self.package, self.model, self.training_opts, self.optimizers, self.strict)
            self.programs[stages.TRAINING] = training
            training.pending_rng_state = self._loaded.pop("rng_state", None)
            if trainer.enable_validation:
                validating = self._make_inference("validation_step")
                self.programs[stages.VALIDATING] = validating
                if trainer.num_sanity_val_steps > 0:
                    self.programs[stages.SANITY_CHECKING] = validating
        else:
            stage = {"validate": stages.VALIDATING, "test": stages.TESTING, "predict": stages.PREDICTING}
            name = str(trainer.state.fn.value)
            self.programs[stage[name]] = self._make_inference(_INFERENCE_STEPS[name])
        self.poptorch_models = {stage: programs.executor for stage, programs in self.programs.items()}  # type: ignore

    def _make_inference(self, step: str) -> InferencePrograms:
        return InferencePrograms(self.package, self.model, step, self.inference_opts, self.strict)

    def _check_hooks(self, trainer: Any) -> None:
        for hook in _TRANSFER_HOOKS if self.strict else ():
            sources = (self.lightning_module, trainer.datamodule)
            if any(source is not None and self.package.is_overridden(hook, source) for source in sources):
                raise self.package.configuration_error(f"Overriding `{hook}` is not supported with IPUs.")

    def _check_optimizers(self) -> None:
        if not self.optimizers:
            raise self.package.configuration_error(
                "`configure_optimizers` returned no optimizer, and a training program updates weights. Return one, or "
                "use `trainer.validate`."
            )
        if len(self.optimizers) > 1 and self.strict:
            raise self.package.configuration_error("IPUs currently only support one optimizer.")

    def _hide_zero_grad(self) -> None:
        """There are no gradients on the host, and looking for them would fetch all weights."""
        module = self.lightning_module
        if self.package.is_overridden("optimizer_zero_grad", module):
            self.package.warn(
                "`LightningModule.optimizer_zero_grad` is overridden, and not called: IPUs clear gradients themselves."
            )
        module.__dict__["optimizer_zero_grad"] = _do_nothing
        self._zero_grad_hidden = True

    def process_dataloader(self, dataloader: object) -> object:
        training = self.lightning_module is not None and bool(self.lightning_module.trainer.training)
        options = self.training_opts if training else self.inference_opts
        return convert_loader(dataloader, options, training=training, strict=self.strict, package=self.package)

    def batch_to_device(self, batch: Any, device: torch.device | None = None, dataloader_idx: int = 0) -> Any:
        """The user's hooks see the batch of a whole call, on the host; then it is cast."""
        if not self.strict:
            batch = super().batch_to_device(batch, device, dataloader_idx)  # type: ignore[misc]
        return self.precision_plugin.cast_batch(batch)

    # Steps

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._run("TRAINING", args, kwargs)

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._run("VALIDATING", args, kwargs)

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._run("TESTING", args, kwargs)

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        return self._run("PREDICTING", args, kwargs)

    def _run(self, stage: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = self.package.find("trainer.states.RunningStage")[stage]
        programs = self.programs[found]
        if isinstance(programs, TrainingPrograms):
            self._check_accumulation()
            programs.clipping = self._find_clipping()
        result = programs.run(args, kwargs)
        self._report_plan(stage.lower(), programs)
        return result

    def _find_clipping(self) -> Clipping:
        """Ask the module how gradients are to be clipped. Its hook runs before the step: afterwards is too late."""
        module, trainer = self.lightning_module, self.lightning_module.trainer
        if not module.automatic_optimization:
            return Clipping()
        self.precision_plugin.clipping = Clipping()
        module.configure_gradient_clipping(
            trainer.optimizers[0], trainer.gradient_clip_val, trainer.gradient_clip_algorithm
        )
        return self.precision_plugin.clipping  # type: ignore[no-any-return]

    def _report_plan(self, stage: str, programs: StagePrograms) -> None:
        plan = find_plan(programs)
        if not self.report or plan is None or (stage, plan.fit.fits) in self._told:
            return  # a last, smaller batch has a program of its own, which is no news if it fits as well
        self._told.add((stage, plan.fit.fits))
        self.package.inform(describe_line(stage, plan))
        trainer = self.lightning_module.trainer
        for logger in trainer.loggers if stage == "training" else ():
            logger.log_metrics(
                list_scalars(plan, logger.group_separator), step=trainer.fit_loop.epoch_loop._batches_that_stepped
            )

    def list_statistics(self) -> dict[str, float]:
        """Modelled figures of the running stage, for callbacks."""
        trainer = self._find_trainer()
        plan = find_plan(self.programs.get(trainer.state.stage)) if trainer is not None else None
        return {} if plan is None else list_scalars(plan)

    # Taking turns on the device

    def _detach_others(self, stage: str | None) -> None:
        kept = self.programs.get(self.package.find("trainer.states.RunningStage")[stage]) if stage else None
        for programs in self.programs.values():
            if programs is not kept:
                programs.detach()  # type: ignore[attr-defined]

    def on_train_start(self) -> None:
        self._detach_others("TRAINING")

    def on_validation_start(self) -> None:
        self._detach_others("VALIDATING")

    def on_test_start(self) -> None:
        self._detach_others("TESTING")

    def on_predict_start(self) -> None:
        self._detach_others("PREDICTING")

    def on_train_end(self) -> None:
        self._detach_others(None)

    on_validation_end = on_test_end = on_predict_end = on_train_end

    def _destroy_programs(self) -> None:
        for programs in dict.fromkeys(self.programs.values()):
            programs.destroy()  # type: ignore[attr-defined]
        self.programs, self.poptorch_models = {}, {}

    def teardown(self) -> None:
        self._destroy_programs()
        self.model = self.lightning_module
        if self.lightning_module is not None and self._zero_grad_hidden:
            self.lightning_module.__dict__.pop("optimizer_zero_grad", None)
            self._zero_grad_hidden = False
        self._release_options()
        self._told.clear()
        super().teardown()  # type: ignore[misc]

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        strategy_registry.register(cls.strategy_name, cls, description=DESCRIPTION, override=True)


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    """In the place of a hook that is not called."""
