"""Pipelined BERT, for every task.

In: a `BertConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from transformers import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from transformers.models.bert.modeling_bert import BertSelfAttention

from optimum.graphcore.modeling_utils import (
    Part,
    PipelineMixin,
    Place,
    register,
    return_marked_loss,
    return_only_loss,
)
from optimum.graphcore.models.bert.attention import BertFusedSelfAttention
from optimum.graphcore.models.bert.initial_weights import truncate_weights
from optimum.graphcore.models.text_encoder import CLASSIFIER, QUESTION_ANSWERING, describe_encoder

_ENCODER = describe_encoder(exchanges={BertSelfAttention: BertFusedSelfAttention})
_BERT = _ENCODER.nest("bert")
_POOLER = Part("bert.pooler", "Pooler", Place.FIRST)
_VOCABULARY = Part("cls", "Classifier", Place.FIRST)
_DECODER = "cls.predictions.decoder"


@register(BertModel)
class PipelinedBertModel(PipelineMixin, BertModel):
    """The encoder alone; its pooler is on the first IPU."""

    layout = _ENCODER.add(Part("pooler", "Pooler", Place.FIRST))


@register(BertForPreTraining)
class PipelinedBertForPreTraining(PipelineMixin, BertForPreTraining):
    """Masked tokens and next sentences. With both kinds of labels it returns the loss only."""

    layout = _BERT.add(_POOLER, _VOCABULARY, projection=_DECODER)
    forward = return_only_loss(
        BertForPreTraining.forward, head="cls", labels=("labels", "next_sentence_label"), in_evaluation=True
    )

    def post_init(self) -> None:
        super().post_init()
        truncate_weights(self, self.config.initializer_range)


@register(BertForMaskedLM)
class PipelinedBertForMaskedLM(PipelineMixin, BertForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _BERT.add(_VOCABULARY, projection=_DECODER)
    forward = return_only_loss(BertForMaskedLM.forward, head="cls")


@register(BertForSequenceClassification)
class PipelinedBertForSequenceClassification(PipelineMixin, BertForSequenceClassification):
    layout = _BERT.add(CLASSIFIER)


@register(BertForMultipleChoice)
class PipelinedBertForMultipleChoice(PipelineMixin, BertForMultipleChoice):
    layout = _BERT.add(CLASSIFIER)


@register(BertForTokenClassification)
class PipelinedBertForTokenClassification(PipelineMixin, BertForTokenClassification):
    layout = _BERT.add(CLASSIFIER)


@register(BertForQuestionAnswering)
class PipelinedBertForQuestionAnswering(PipelineMixin, BertForQuestionAnswering):
    """With positions it returns a tuple that starts with the loss."""

    layout = _BERT.add(QUESTION_ANSWERING)
    forward = return_marked_loss(BertForQuestionAnswering.forward)
