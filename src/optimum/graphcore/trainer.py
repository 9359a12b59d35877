"""`IPUTrainer`: Transformers' `Trainer` for models that run as IPU programs.

In: a model, an `IPUConfig`, training arguments, data. Out: what `Trainer` gives; the methods are the same. A pipelined
copy of the model runs, and the model that was passed has the trained weights when `train()` returns.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, NoReturn

import torch
from optimum.utils import logging
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import set_seed

from optimum.graphcore.data import fix_padding
from optimum.graphcore.ipu_configuration import AUTO, IPUConfig
from optimum.graphcore.modelcard import write_model_card
from optimum.graphcore.modeling_utils import to_pipelined
from optimum.graphcore.training.checkpoints import CheckpointMixin
from optimum.graphcore.training.evaluation import EvaluationMixin
from optimum.graphcore.training.loaders import LoaderMixin
from optimum.graphcore.training.loop import TrainingMixin
from optimum.graphcore.training.state import IPUTrainerState
from optimum.graphcore.training_args import IPUTrainingArguments

__all__ = ["IPUTrainer", "IPUTrainerState"]

logger = logging.get_logger(__name__)


class IPUTrainer(LoaderMixin, TrainingMixin, EvaluationMixin, CheckpointMixin, Trainer):  # type: ignore[misc]
    """Trains and evaluates Transformers models as IPU programs.

    `training_model` is the executor that trains, `inference_model` the one that evaluated last, `original_model` what
    was passed, `opts` and `eval_opts` are the options of the programs.
    """

    model: Any  # pipelined

    def __init__(
        self,
        model: nn.Module | None = None,
        ipu_config: IPUConfig | str | None = None,
        args: TrainingArguments | None = None,
        data_collator: Any = None,
        eval_data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        tokenizer: Any = None,
        model_init: Any = None,
        compute_metrics: Any = None,
        callbacks: list[Any] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        preprocess_logits_for_metrics: Any = None,
        force_to_pipelined: bool = False,
        *,
        processing_class: Any = None,
        compute_loss_func: Any = None,
        optimizer_cls_and_kwargs: tuple[type[Any], dict[str, Any]] | None = None,
    ) -> None:
        if isinstance(ipu_config, TrainingArguments):  # `Trainer(model, args, …)`
            ipu_config, args = (args if isinstance(args, IPUConfig | str) else None), ipu_config
        if model_init is not None:
            raise RuntimeError("`model_init` is not supported by `IPUTrainer` yet. Pass a `model`.")
        if model is None:
            raise RuntimeError("`IPUTrainer` requires a `model`.")
        chosen = IPUTrainingArguments.from_training_arguments(args or IPUTrainingArguments(output_dir="tmp_trainer"))
        set_seed(chosen.seed)
        if chosen.log_level != "passive":
            logging.set_verbosity(chosen.get_process_log_level())
        self.original_model = model
        self.training_model: Any = None
        self._force_to_pipelined = force_to_pipelined
        self.ipu_config = _settle_config(ipu_config, chosen)
        chosen.gradient_accumulation_steps = self.ipu_config.gradient_accumulation_steps
        super().__init__(
            model=to_pipelined(model, self.ipu_config, force_to_pipelined),
            args=chosen,
            data_collator=data_collator,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class if processing_class is not None else tokenizer,
            compute_loss_func=compute_loss_func,
            compute_metrics=compute_metrics,
            callbacks=callbacks,
            optimizers=optimizers,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics,
        )
        self.optimizer_cls_and_kwargs = optimizer_cls_and_kwargs
        self.state = IPUTrainerState.from_state(self.state)
        self._set_collators(eval_data_collator)
        self._spread_model()
        if chosen.compile_only:
            self._compile_and_exit()

    @property
    def tokenizer(self) -> Any:
        """The processing class, by its older name."""
        return self.processing_class

    def _set_collators(self, eval_data_collator: Any) -> None:
        """Batches have one shape: of training and of evaluation, each padded to its longest example."""
        evaluated = self.eval_dataset.values() if isinstance(self.eval_dataset, dict) else [self.eval_dataset]
        datasets = [self.train_dataset, *evaluated]
        given = self.data_collator
        self.data_collator = fix_padding(given, datasets)
        self.eval_data_collator = (
            self.data_collator if eval_data_collator is None else fix_padding(eval_data_collator, datasets)
        )

    def _spread_model(self) -> None:
        """Settle the configuration, spread the model over IPUs and choose its number format."""
        if AUTO in (self.ipu_config.layers_per_ipu, self.ipu_config.inference_layers_per_ipu):
            self._settle_layers()
        self.opts = self.ipu_config.to_options(compile_only=self.args.compile_only)
        self.eval_opts = self.ipu_config.to_options(for_inference=True, compile_only=self.args.compile_only)
        for options in (self.opts, self.eval_opts):
            options.showCompilationProgressBar(not self.args.disable_tqdm)
        self.model.ipu_config = copy.deepcopy(self.ipu_config).train()
        self.model.parallelize(**self.ipu_config.parallelize_kwargs)
        self.model = self.model_wrapped = self.callback_handler.model = self._cast(self.model)

    def _settle_layers(self) -> None:
        """Replace "auto" by the split that the plan of this model and these batches asks for."""
        from optimum.graphcore.automatic import settle_layers

        if self.train_dataset is not None:
            batch = self._take_sample(training=True)
            rows = self.args.train_batch_size
        else:
            dataset = self.eval_dataset
            batch = self._take_sample(training=False, dataset=dataset)
            rows = self.args.eval_batch_size
        inputs = {name: value[:rows] for name, value in self._prepare_inputs(batch).items()}
        self.ipu_config = settle_layers(
            self.ipu_config, self.original_model, inputs, training=self.train_dataset is not None, fp32=self.args.fp32
        )

    def _cast(self, model: Any) -> Any:
        return model.float() if self.args.fp32 else model.half()

    def _compile_and_exit(self) -> NoReturn:
        if self.train_dataset is not None:
            self.create_optimizer()
            self.compile_model(self.wrap_model(self.model), self._take_sample(training=True))
        if self.eval_dataset is not None:
            dataset = (
                next(iter(self.eval_dataset.values())) if isinstance(self.eval_dataset, dict) else self.eval_dataset
            )
            batch = self._prepare_inputs(self._take_sample(training=False, dataset=dataset))
            loss_only = self.compute_metrics is None
            self._get_evaluator().prepare(batch, *self._describe_request(batch, loss_only, None))
        logger.info("Exiting after compiling models with compile_only=True")
        sys.exit(0)

    def wrap_model(self, model: Any, training: bool = True) -> Any:
        """The executor that trains the model of this trainer, or what evaluates it."""
        return self._start_training_model() if training else self._get_evaluator()

    def _set_signature_columns_if_needed(self) -> None:
        """Columns that the model takes, by the model that was passed: its pipelined class may name fewer."""
        if self._signature_columns is None:
            pipelined, self.model = self.model, self.original_model
            try:
                super()._set_signature_columns_if_needed()
            finally:
                self.model = pipelined

    def _move_model_to_device(self, model: Any, device: torch.device) -> None:
        """Weights stay on the host until a program is attached."""

    def hyperparameter_search(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError("Hyperparameter tuning is not supported by the IPUTrainer.")

    def create_model_card(self, language: str | None = None, license: str | None = None, **kwargs: Any) -> None:
        """Write README.md: how the model was trained, and on which modelled IPUs."""
        write_model_card(self, language=language, license=license, **kwargs)


def _settle_config(ipu_config: IPUConfig | str | None, args: IPUTrainingArguments) -> IPUConfig:
    """A configuration of the trainer's own, with what the arguments say."""
    if ipu_config is None and args.ipu_config_name is not None:
        ipu_config = args.ipu_config_name
    if isinstance(ipu_config, str):
        ipu_config = IPUConfig.from_pretrained(ipu_config)
    config: IPUConfig = copy.deepcopy(ipu_config) if ipu_config is not None else IPUConfig()
    if args.n_ipu is not None:
        logger.warning("IPUTrainer is overwriting the replication factors: n_ipu=%d.", args.n_ipu)
        config = config.for_ipu_count(args.n_ipu)
    if args.ipu_config_overrides is not None:
        logger.info("Overriding IPU config: %s", args.ipu_config_overrides)
        config.update_from_string(args.ipu_config_overrides)
    config.seed = args.seed
    return config
