"""Pipelined DistilBERT, for every task.

In: a `DistilBertConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from transformers import (
    DistilBertForMaskedLM,
    DistilBertForMultipleChoice,
    DistilBertForQuestionAnswering,
    DistilBertForSequenceClassification,
    DistilBertForTokenClassification,
)

from optimum.graphcore.modeling_utils import (
    Part,
    PipelineMixin,
    Place,
    register,
    return_marked_loss,
    return_only_loss,
)
from optimum.graphcore.models.text_encoder import QUESTION_ANSWERING, describe_encoder

_DISTILBERT = describe_encoder("distilbert", layers="transformer.layer")
_PRE_CLASSIFIER = Part("pre_classifier", "Classifier")  # the classifier itself follows in the same block


@register(DistilBertForMaskedLM)
class PipelinedDistilBertForMaskedLM(PipelineMixin, DistilBertForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _DISTILBERT.add(Part("vocab_transform", "LM Head", Place.FIRST), projection="vocab_projector")
    forward = return_only_loss(DistilBertForMaskedLM.forward, head="vocab_transform")


@register(DistilBertForSequenceClassification)
class PipelinedDistilBertForSequenceClassification(PipelineMixin, DistilBertForSequenceClassification):
    layout = _DISTILBERT.add(_PRE_CLASSIFIER)


@register(DistilBertForMultipleChoice)
class PipelinedDistilBertForMultipleChoice(PipelineMixin, DistilBertForMultipleChoice):
    layout = _DISTILBERT.add(_PRE_CLASSIFIER)


@register(DistilBertForTokenClassification)
class PipelinedDistilBertForTokenClassification(PipelineMixin, DistilBertForTokenClassification):
    layout = _DISTILBERT.add(Part("classifier", "Classifier"))


@register(DistilBertForQuestionAnswering)
class PipelinedDistilBertForQuestionAnswering(PipelineMixin, DistilBertForQuestionAnswering):
    """With positions it returns a tuple that starts with the loss."""

    layout = _DISTILBERT.add(QUESTION_ANSWERING)
    forward = return_marked_loss(DistilBertForQuestionAnswering.forward)
