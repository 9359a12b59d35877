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
    Layers,
    Part,
    PipelineLayout,
    PipelineMixin,
    Place,
    register,
    return_marked_loss,
    return_only_loss,
)
from optimum.graphcore.models.roberta.attention import RobertaFusedSelfAttention

_ROBERTA = PipelineLayout(
    parts=(Part("roberta.embeddings", "Embedding", Place.FIRST), Layers("roberta.encoder.layer", "Encoder")),
    word_embeddings="roberta.embeddings.word_embeddings",
    outlined="roberta.embeddings.LayerNorm",
    exchanges={RobertaSelfAttention: RobertaFusedSelfAttention},
)
_CLASSIFIER = Part("classifier", "Classifier Output")


@register(RobertaForMaskedLM)
class PipelinedRobertaForMaskedLM(PipelineMixin, RobertaForMaskedLM):
    """Masked tokens. Training returns the loss only."""

    layout = _ROBERTA.add(Part("lm_head", "LM Head", Place.FIRST), projection="lm_head.decoder")
    forward = return_only_loss(RobertaForMaskedLM.forward, head="lm_head")


@register(RobertaForSequenceClassification)
class PipelinedRobertaForSequenceClassification(PipelineMixin, RobertaForSequenceClassification):
    layout = _ROBERTA.add(_CLASSIFIER)


@register(RobertaForMultipleChoice)
class PipelinedRobertaForMultipleChoice(PipelineMixin, RobertaForMultipleChoice):
    layout = _ROBERTA.add(_CLASSIFIER)


@register(RobertaForTokenClassification)
class PipelinedRobertaForTokenClassification(PipelineMixin, RobertaForTokenClassification):
    layout = _ROBERTA.add(_CLASSIFIER)


@register(RobertaForQuestionAnswering)
class PipelinedRobertaForQuestionAnswering(PipelineMixin, RobertaForQuestionAnswering):
    """With positions it returns a tuple that starts with the loss."""

    layout = _ROBERTA.add(Part("qa_outputs", "QA Outputs"))
    forward = return_marked_loss(RobertaForQuestionAnswering.forward)
