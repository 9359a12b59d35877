"""Pipelined RoBERTa, for every task.

In: a `RobertaConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from transformers import (
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)
from transformers.models.roberta.modeling_roberta import RobertaSelfAttention

from optimum.graphcore.modeling_utils import (
    Part,
    PipelineMixin,
    Place,
    register,
    return_marked_loss,
    return_only_loss,
)
from optimum.graphcore.models.roberta.attention import RobertaFusedSelfAttention
from optimum.graphcore.models.text_encoder import CLASSIFIER, QUESTION_ANSWERING, describe_encoder

_ROBERTA = describe_encoder("roberta", exchanges={RobertaSelfAttention: RobertaFusedSelfAttention})


@register(RobertaForMaskedLM)
class PipelinedRobertaForMaskedLM(PipelineMixin, RobertaForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _ROBERTA.add(Part("lm_head", "LM Head", Place.FIRST), projection="lm_head.decoder")
    forward = return_only_loss(RobertaForMaskedLM.forward, head="lm_head")


@register(RobertaForSequenceClassification)
class PipelinedRobertaForSequenceClassification(PipelineMixin, RobertaForSequenceClassification):
    layout = _ROBERTA.add(CLASSIFIER)


@register(RobertaForMultipleChoice)
class PipelinedRobertaForMultipleChoice(PipelineMixin, RobertaForMultipleChoice):
    layout = _ROBERTA.add(CLASSIFIER)


@register(RobertaForTokenClassification)
class PipelinedRobertaForTokenClassification(PipelineMixin, RobertaForTokenClassification):
    layout = _ROBERTA.add(CLASSIFIER)


@register(RobertaForQuestionAnswering)
class PipelinedRobertaForQuestionAnswering(PipelineMixin, RobertaForQuestionAnswering):
    """With positions it returns a tuple that starts with the loss."""

    layout = _ROBERTA.add(QUESTION_ANSWERING)
    forward = return_marked_loss(RobertaForQuestionAnswering.forward)
