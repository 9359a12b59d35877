"""Pipelined GroupBERT, for every task.

In: a `GroupBertConfig` or a model of modeling_groupbert.py. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from optimum.graphcore.modeling_utils import (
    Part,
    PipelineMixin,
    Place,
    register,
    return_marked_loss,
    return_only_loss,
)
from optimum.graphcore.models.groupbert.modeling_groupbert import (
    GroupBertForMaskedLM,
    GroupBertForMultipleChoice,
    GroupBertForPreTraining,
    GroupBertForQuestionAnswering,
    GroupBertForSequenceClassification,
    GroupBertForTokenClassification,
)
from optimum.graphcore.models.text_encoder import CLASSIFIER, QUESTION_ANSWERING, describe_encoder

_GROUPBERT = describe_encoder("bert")
_VOCABULARY = Part("cls", "Classifier", Place.FIRST)
_DECODER = "cls.predictions.decoder"


@register(GroupBertForPreTraining)
class PipelinedGroupBertForPreTraining(PipelineMixin, GroupBertForPreTraining):
    """Masked tokens and next sentences. With both kinds of labels it returns the loss only."""

    layout = _GROUPBERT.add(Part("bert.pooler", "Pooler", Place.FIRST), _VOCABULARY, projection=_DECODER)
    forward = return_only_loss(
        GroupBertForPreTraining.forward, head="cls", labels=("labels", "next_sentence_label"), in_evaluation=True
    )


@register(GroupBertForMaskedLM)
class PipelinedGroupBertForMaskedLM(PipelineMixin, GroupBertForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _GROUPBERT.add(_VOCABULARY, projection=_DECODER)
    forward = return_only_loss(GroupBertForMaskedLM.forward, head="cls")


@register(GroupBertForSequenceClassification)
class PipelinedGroupBertForSequenceClassification(PipelineMixin, GroupBertForSequenceClassification):
    layout = _GROUPBERT.add(CLASSIFIER)


@register(GroupBertForMultipleChoice)
class PipelinedGroupBertForMultipleChoice(PipelineMixin, GroupBertForMultipleChoice):
    layout = _GROUPBERT.add(CLASSIFIER)


@register(GroupBertForTokenClassification)
class PipelinedGroupBertForTokenClassification(PipelineMixin, GroupBertForTokenClassification):
    layout = _GROUPBERT.add(CLASSIFIER)


@register(GroupBertForQuestionAnswering)
class PipelinedGroupBertForQuestionAnswering(PipelineMixin, GroupBertForQuestionAnswering):
    """With positions it returns a tuple that starts with the loss."""

    layout = _GROUPBERT.add(QUESTION_ANSWERING)
    forward = return_marked_loss(GroupBertForQuestionAnswering.forward)
