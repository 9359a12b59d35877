"""Training: what the loop of Transformers does with an accelerator, done by one program a call.

In: a trainer's model, loader and arguments. Out: trained weights in the program, and the callbacks, logs, evaluations
and checkpoints on the way. One item of the loader is one call and one `global_step`.
"""

from __future__ import annotations

import copy
import functools
import time
import warnings
from typing import Any

import torch
from optimum.utils import logging
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import IterableDataset
from transformers.optimization import GreedyLR
from transformers.trainer_utils import TrainOutput, has_length

import poptorch
from optimum.graphcore.metrics_callback import IPUMetricsCallback
from optimum.graphcore.training.item_counts import add_item_counts
from optimum.graphcore.training.loaders import NO_SAMPLE, EpochSampler, prepare_inputs
from optimum.graphcore.training.optimizers import choose_optimizer, convert_optimizer, group_parameters
from optimum.graphcore.training.programs import compile_program, read_plan, run_program
from optimum.graphcore.training.state import IPUTrainerState, describe_plan, list_metrics
from optimum.graphcore.training.steps import TrainingStep
from optimum.graphcore.training.weights import copy_values, make_plain_twin

logger = logging.get_logger(__name__)


class TrainingMixin:
    """The part of a trainer that trains."""

    _parameter_count: int | None = None

    training_model: Any

    def create_optimizer(self: Any, model: Any = None) -> Any:
        """The optimizer that the arguments name, or the user's own for the parameters of the pipelined model."""
        model = self.model if model is None else model
        if self.optimizer is not None:
            self._convert_user_optimizer(model)
        elif self.optimizer_cls_and_kwargs is not None:
            kind, settings = self.optimizer_cls_and_kwargs
            made = kind(group_parameters(model, self._list_decaying(model), self.args), **settings)
            self.optimizer = convert_optimizer(made, model, model, self.args)
        else:
            kind, settings = choose_optimizer(self.args)
            self.optimizer = kind(group_parameters(model, self._list_decaying(model), self.args), **settings)
        return self.optimizer

    def _list_decaying(self: Any, model: Any) -> set[str]:
        return set(self.get_decay_parameter_names(model))

    def _convert_user_optimizer(self: Any, model: Any) -> None:
        own = {id(parameter) for parameter in model.parameters()}
        if all(id(p) in own for group in self.optimizer.param_groups for p in group["params"]):
            if not isinstance(self.optimizer, poptorch.optim.Optimizer):
                self.optimizer = convert_optimizer(self.optimizer, model, model, self.args)
            return
        self.optimizer = self.pytorch_optimizer_to_poptorch(self.optimizer, self.original_model, model)
        if self.lr_scheduler is not None:
            self.lr_scheduler.optimizer = self.optimizer

    def pytorch_optimizer_to_poptorch(self: Any, optimizer: Any, model: Any, pipelined_model: Any) -> Any:
        """An optimizer of PyTorch for `model` as one of PopTorch for `pipelined_model`."""
        return convert_optimizer(optimizer, model, pipelined_model, self.args)

    def set_initial_training_values(self: Any, args: Any, dataloader: Any) -> Any:
        """Epochs and steps, counted in calls: accumulation happens inside of one."""
        if has_length(dataloader) and len(dataloader) == 0:
            raise ValueError(NO_SAMPLE)
        counted = copy.copy(args)
        counted.gradient_accumulation_steps = 1
        return super().set_initial_training_values(counted, dataloader)  # type: ignore[misc]

    def get_total_train_batch_size(self: Any, args: Any) -> int:
        return int(self._train_batch_size * self.ipu_config.batch_size_factor())

    def _init_training_state(self: Any, *args: Any, **kwargs: Any) -> tuple[int, int]:
        epochs, steps = super()._init_training_state(*args, **kwargs)  # type: ignore[misc]
        self.state = IPUTrainerState.from_state(self.state)
        return epochs, steps // self.args.gradient_accumulation_steps

    def _prepare_for_training(
        self: Any, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> Any:
        """Optimizer, scheduler and program, compiled before the clock starts."""
        if self._created_lr_scheduler:
            self.lr_scheduler, self._created_lr_scheduler = None, False
        self.create_optimizer()
        self.create_scheduler(num_training_steps=max_steps)
        if resume_from_checkpoint is not None:
            self._load_optimizer_and_scheduler(resume_from_checkpoint)
        executor = self.model_wrapped = self.wrap_model(self.model, training=True)
        if not isinstance(self.train_dataset, IterableDataset):  # its batches come once only
            self._compile_for_training(executor, self._take_sample(training=True), resume_from_checkpoint)
        for name in ("model", "optimizer", "lr_scheduler"):
            setattr(self.callback_handler, name, getattr(self, name))
        self.callback_handler.train_dataloader = train_dataloader
        if self.state.start_time < 0:  # a run that goes on keeps its own
            self.state.start_time = time.time()
        return executor, train_dataloader

    def _compile_for_training(self: Any, executor: Any, batch: dict[str, Any], resume_from_checkpoint: Any) -> None:
        self.compile_model(executor, batch)
        if resume_from_checkpoint is not None:
            self._load_device_rng_state(resume_from_checkpoint)

    def _start_training_model(self: Any) -> Any:
        """The executor that trains. It is made once, and given the optimizer of each run."""
        if self.training_model is None:
            step = TrainingStep(self.model, self.compute_loss).train()
            self.training_model = poptorch.trainingModel(step, self.opts, self.optimizer)
        else:
            self.training_model.setOptimizer(self.optimizer)
        return self.training_model

    def compile_model(self: Any, model: Any, sample_batch: dict[str, Any], log: bool = True) -> None:
        """Compile a program of this trainer for batches like this one."""
        compile_program(model, add_item_counts(self, self._prepare_inputs(sample_batch)), "training")

    def _prepare_inputs(self: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        if not inputs:
            raise ValueError(
                "The batch received was empty, your model won't be able to train on it. Double-check that your "
                f"training dataset contains keys expected by the model: {', '.join(self._signature_columns or [])}."
            )
        return prepare_inputs(dict(inputs), torch.float32 if self.args.fp32 else torch.float16)

    def training_step(self: Any, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One call of the program: forward, backward and update. The loss is the mean of those that come back."""
        loss: torch.Tensor = run_program(model, add_item_counts(self, self._prepare_inputs(inputs)))
        return loss.detach().float().mean()

    def floating_point_ops(self: Any, inputs: dict[str, Any]) -> int:
        """As in Transformers, with parameters counted once: asking for a weight's size brings all to the host."""
        if not hasattr(self.model, "estimate_tokens"):
            return 0
        if self._parameter_count is None:
            self._parameter_count = self.model.num_parameters(exclude_embeddings=True)
        return 6 * int(self.model.estimate_tokens(inputs)) * int(self._parameter_count)

    def _run_epoch(
        self: Any,
        model: Any,
        epoch: int,
        train_dataloader: Any,
        steps_in_epoch: int,
        trial: Any,
        ignore_keys_for_eval: Any,
        start_time: float,
        resume_from_checkpoint: str | None,
        epochs_trained: int,
        steps_trained_in_current_epoch: int,
        **others: Any,
    ) -> None:
        learning_rate = None
        step = self._start_epoch(train_dataloader, epoch, epochs_trained, steps_trained_in_current_epoch)
        resumes = resume_from_checkpoint is not None and epoch == epochs_trained
        if resumes and step == 0 and steps_trained_in_current_epoch == 0:
            self._load_rng_state(resume_from_checkpoint)
        batches = self._skip_batches(train_dataloader, step)
        if resumes and step > 0:
            self._load_rng_state(resume_from_checkpoint)
        for inputs in batches:
            if not model.isCompiled():  # the data comes once only, so that there was no sample
                self._compile_for_training(model, inputs, resume_from_checkpoint)
            self.control = self.callback_handler.on_step_begin(self.args, self.state, self.control)
            loss = self.training_step(model, inputs)
            self._add_loss(loss)
            self.current_flos += float(self.floating_point_ops(inputs))
            self._track_num_input_tokens(inputs)
            self.control = self.callback_handler.on_optimizer_step(self.args, self.state, self.control)
            learning_rate = self._get_learning_rate()
            self._step_scheduler()
            model.setOptimizer(self.optimizer)
            step += 1
            self.state.global_step += 1
            self.state.epoch = epoch + step / steps_in_epoch
            self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
            self._report(model, trial, epoch, ignore_keys_for_eval, start_time, learning_rate)
            if self.control.should_epoch_stop or self.control.should_training_stop:
                break
        if step == 0:
            logger.warning(
                "There is not a single batch in the training data: training stops at step %d of %d.",
                self.state.global_step,
                self.state.max_steps,
            )
            self.control.should_training_stop = True
        self.control = self.callback_handler.on_epoch_end(self.args, self.state, self.control)
        self._report(model, trial, epoch, ignore_keys_for_eval, start_time, learning_rate)

    def _start_epoch(self: Any, loader: Any, epoch: int, epochs_trained: int, steps_trained: int) -> int:
        """Give the epoch its order; how many of its steps are done already."""
        for part in (getattr(loader, "sampler", None), getattr(loader, "dataset", None)):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
        return steps_trained if epoch == epochs_trained and not self.args.ignore_data_skip else 0

    def _skip_batches(self: Any, loader: Any, count: int) -> Any:
        sampler = getattr(loader, "sampler", None)
        if isinstance(sampler, EpochSampler):
            sampler.skipped = count * self._train_batch_size * self.ipu_config.batch_size_factor()
            return iter(loader)
        batches = iter(loader)
        for _ in range(count):
            next(batches, None)
        return batches

    def _step_scheduler(self: Any) -> None:
        if isinstance(self.lr_scheduler, ReduceLROnPlateau | GreedyLR):
            return  # these wait for an evaluation
        with warnings.catch_warnings():  # PyTorch looks for a step of the optimizer, and the program did it
            warnings.filterwarnings("ignore", message=".*optimizer.step.*", category=UserWarning)
            self.lr_scheduler.step()

    def create_scheduler(self: Any, num_training_steps: int, optimizer: Any = None) -> Any:
        """The scheduler that the arguments name, or the user's own, or what the user's `functools.partial` makes."""
        if isinstance(self.lr_scheduler, functools.partial):
            self.lr_scheduler = self.lr_scheduler(self.optimizer if optimizer is None else optimizer)
        return super().create_scheduler(num_training_steps, optimizer)  # type: ignore[misc]

    def _add_loss(self: Any, loss: torch.Tensor) -> None:
        if self.args.logging_nan_inf_filter and not torch.isfinite(loss):
            self._tr_loss += self._tr_loss / (1 + self.state.global_step - self._globalstep_last_logged)
        else:
            self._tr_loss += loss

    def _report(
        self: Any, model: Any, trial: Any, epoch: int, ignore_keys: Any, start_time: float, learning_rate: Any
    ) -> None:
        plan = read_plan(model)
        if plan is not None and "training" not in self.state.ipu:
            self.state.ipu["training"] = describe_plan(plan)
        self._maybe_log_save_evaluate(
            self._tr_loss, None, model, trial, epoch, ignore_keys, start_time, learning_rate=learning_rate
        )

    def _finalize_training(self: Any, trial: Any, num_train_samples: float, start_time: float) -> TrainOutput:
        output = super()._finalize_training(trial, num_train_samples, start_time)  # type: ignore[misc]
        self._return_weights()
        return output

    def _return_weights(self: Any) -> None:
        """Let the model that the user passed have the trained weights, as after a plain trainer."""
        plain, given = make_plain_twin(self.model), self.original_model
        if plain.state_dict().keys() == given.state_dict().keys():
            copy_values(plain, given)

    def log(self: Any, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log; the summary of a training run also says what the plan expects of an IPU."""
        plan = read_plan(self.training_model) if "train_runtime" in logs else None
        if plan is not None:
            logs.update(list_metrics(plan, "train"))
        for callback in self.callback_handler.callbacks if "loss" in logs else ():
            if isinstance(callback, IPUMetricsCallback):
                logs.update(callback.list_scalars(self.training_model))
        super().log(logs, start_time)  # type: ignore[misc]
