"""Evaluation and prediction: the loop of Transformers, over programs.

In: a loader, a trainer. Out: metrics and predictions. Compilation does not count as evaluation time.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils.data import IterableDataset
from transformers.trainer_utils import EvalLoopOutput

from optimum.graphcore.training.programs import Evaluator, read_plan
from optimum.graphcore.training.random_state import preserve_random_state
from optimum.graphcore.training.state import describe_plan, list_metrics
from optimum.graphcore.training.weights import make_plain_twin, share_weights


class EvaluationMixin:
    """The part of a trainer that evaluates."""

    _evaluator: Evaluator | None = None

    def _get_evaluator(self: Any) -> Evaluator:
        """Programs over a copy of the model that is spread as the configuration says for inference."""
        if self._evaluator is None:
            self._evaluator = Evaluator(
                self._spread_for_inference(), self.eval_opts, self._count_eval_rows(), self.compute_loss
            )
        else:
            share_weights(self.model, self._evaluator.model)
            self._evaluator.refresh()
        return self._evaluator

    def _spread_for_inference(self: Any, **parallelize_kwargs: Any) -> Any:
        with preserve_random_state():
            model = make_plain_twin(self.model)
            model.ipu_config = copy.deepcopy(self.ipu_config).eval()
            model.parallelize(**{**self.ipu_config.inference_parallelize_kwargs, **parallelize_kwargs})
            return self._cast(model).eval()

    @property
    def inference_model(self: Any) -> Any:
        """The program that evaluated last, if any."""
        programs = self._evaluator.programs if self._evaluator is not None else []
        return programs[-1] if programs else None

    def evaluation_loop(
        self: Any,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate; the metrics also say what the plan expects of an IPU."""
        if prediction_loss_only is None:
            prediction_loss_only = self.args.prediction_loss_only
        self.model_preparation_time = round(self._prepare_evaluation(dataloader, prediction_loss_only, ignore_keys), 4)
        output = super().evaluation_loop(  # type: ignore[misc]
            dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
        )
        plan = read_plan(self.inference_model)
        if plan is not None:
            output.metrics.update(list_metrics(plan, metric_key_prefix))
            if hasattr(self.state, "ipu"):
                self.state.ipu["evaluation"] = describe_plan(plan)
        return output

    def _prepare_evaluation(self: Any, dataloader: Any, loss_only: bool, ignore_keys: list[str] | None) -> float:
        """Give programs the present weights, and compile what the first batch needs; how many seconds that took."""
        evaluator = self._get_evaluator()
        if isinstance(dataloader.dataset, IterableDataset) or len(dataloader) == 0:
            return 0.0
        with preserve_random_state():
            batch = self._prepare_inputs(next(iter(dataloader)))
        seconds: float = evaluator.prepare(batch, *self._describe_request(batch, loss_only, ignore_keys))
        return seconds

    def _wrap_model(self: Any, model: Any, training: bool = True, dataloader: Any = None) -> Any:
        """What the loops of Transformers run in place of the model."""
        return self.training_model if training else self._evaluator

    def prediction_step(
        self: Any,
        model: Any,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
        **others: Any,
    ) -> tuple[torch.Tensor | None, Any, Any]:
        """Loss of each example's micro-batch, predictions and labels of one batch."""
        batch = self._prepare_inputs(inputs)
        request = self._describe_request(batch, prediction_loss_only, ignore_keys)
        losses, predictions = model.run(batch, *request)
        with_loss, loss_only, _ = request
        if loss_only:
            return losses, None, None
        labels = tuple(batch[name] for name in self.label_names) if with_loss and self.label_names else None
        return losses, _unpack(predictions), _unpack(labels)

    def _describe_request(
        self: Any, batch: dict[str, Any], loss_only: bool, ignore_keys: list[str] | None
    ) -> tuple[bool, bool, tuple[str, ...]]:
        if ignore_keys is None:
            config = getattr(self.model, "config", None)
            ignore_keys = getattr(config, "keys_to_ignore_at_inference", ["past_key_values"]) if config else []
        has_labels = len(self.label_names) > 0 and all(batch.get(name) is not None for name in self.label_names)
        return_loss = batch.get("return_loss", self.can_return_loss)
        with_loss = has_labels or (not self.label_names and bool(return_loss))
        return with_loss, bool(loss_only and with_loss), tuple(ignore_keys)


def _unpack(values: tuple[Any, ...] | None) -> Any:
    return values[0] if values is not None and len(values) == 1 else values
