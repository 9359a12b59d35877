"""Pipelined RoBERTa."""

from optimum.graphcore.models.roberta.modeling_roberta import (
    PipelinedRobertaForMaskedLM,
    PipelinedRobertaForMultipleChoice,
    PipelinedRobertaForQuestionAnswering,
    PipelinedRobertaForSequenceClassification,
    PipelinedRobertaForTokenClassification,
)

__all__ = [
    "PipelinedRobertaForMaskedLM",
    "PipelinedRobertaForMultipleChoice",
    "PipelinedRobertaForQuestionAnswering",
    "PipelinedRobertaForSequenceClassification",
    "PipelinedRobertaForTokenClassification",
]
