"""Pipelined DistilBERT."""

from optimum.graphcore.models.distilbert.modeling_distilbert import (
    PipelinedDistilBertForMaskedLM,
    PipelinedDistilBertForMultipleChoice,
    PipelinedDistilBertForQuestionAnswering,
    PipelinedDistilBertForSequenceClassification,
    PipelinedDistilBertForTokenClassification,
)

__all__ = [
    "PipelinedDistilBertForMaskedLM",
    "PipelinedDistilBertForMultipleChoice",
    "PipelinedDistilBertForQuestionAnswering",
    "PipelinedDistilBertForSequenceClassification",
    "PipelinedDistilBertForTokenClassification",
]
