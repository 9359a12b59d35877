"""Pipelined DeBERTa."""

from optimum.graphcore.models.deberta.modeling_deberta import (
    PipelinedDebertaForMaskedLM,
    PipelinedDebertaForQuestionAnswering,
    PipelinedDebertaForSequenceClassification,
    PipelinedDebertaForTokenClassification,
)

__all__ = [
    "PipelinedDebertaForMaskedLM",
    "PipelinedDebertaForQuestionAnswering",
    "PipelinedDebertaForSequenceClassification",
    "PipelinedDebertaForTokenClassification",
]
