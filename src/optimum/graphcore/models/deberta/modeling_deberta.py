"""Pipelined DeBERTa, for every task.

In: a `DebertaConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import (
    DebertaForMaskedLM,
    DebertaForQuestionAnswering,
    DebertaForSequenceClassification,
    DebertaForTokenClassification,
)

from optimum.graphcore.modeling.outputs import mark_loss
from optimum.graphcore.modeling.tokens import IGNORED_LABEL
from optimum.graphcore.modeling_utils import (
    Part,
    PipelineMixin,
    Place,
    register,
    return_marked_loss,
    return_only_loss,
)
from optimum.graphcore.models.text_encoder import CLASSIFIER, QUESTION_ANSWERING, describe_encoder

_DEBERTA = describe_encoder("deberta")


def _find_head(model: Any) -> nn.Module:
    """A configuration with legacy=False names its head otherwise."""
    head: nn.Module = model.cls if model.legacy else model.lm_predictions
    return head


def _classify_with_static_shapes(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Without config.problem_type the original leaves out rows with a negative label; here cross entropy does."""
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def classify(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        labels = bound.arguments.get("labels")
        if labels is None or self.num_labels == 1 or self.config.problem_type is not None:
            return forward(self, *args, **kwargs)
        if labels.dim() > 1 and labels.shape[-1] > 1:  # a share for each class
            return mark_loss(forward(self, *args, **kwargs))
        bound.arguments["labels"] = torch.where(labels < 0, IGNORED_LABEL, labels)
        self.config.problem_type = "single_label_classification"
        try:
            return forward(*bound.args, **bound.kwargs)
        finally:
            self.config.problem_type = None

    return classify


@register(DebertaForMaskedLM)
class PipelinedDebertaForMaskedLM(PipelineMixin, DebertaForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _DEBERTA.add(
        Part("cls", "Projection", Place.FIRST, optional=True),
        Part("lm_predictions", "Projection", Place.FIRST, optional=True),
        projection="cls.predictions.decoder",
    )
    forward = return_only_loss(DebertaForMaskedLM.forward, head=_find_head)


@register(DebertaForSequenceClassification)
class PipelinedDebertaForSequenceClassification(PipelineMixin, DebertaForSequenceClassification):
    layout = _DEBERTA.add(CLASSIFIER)
    forward = _classify_with_static_shapes(DebertaForSequenceClassification.forward)


@register(DebertaForTokenClassification)
class PipelinedDebertaForTokenClassification(PipelineMixin, DebertaForTokenClassification):
    layout = _DEBERTA.add(CLASSIFIER)


@register(DebertaForQuestionAnswering)
class PipelinedDebertaForQuestionAnswering(PipelineMixin, DebertaForQuestionAnswering):
    """With positions it returns a tuple that starts with the loss."""

    layout = _DEBERTA.add(QUESTION_ANSWERING)
    forward = return_marked_loss(DebertaForQuestionAnswering.forward)
