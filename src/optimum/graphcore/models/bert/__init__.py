"""Pipelined BERT."""

from optimum.graphcore.models.bert.attention import BertFusedSelfAttention
from optimum.graphcore.models.bert.modeling_bert import (
    PipelinedBertForMaskedLM,
    PipelinedBertForMultipleChoice,
    PipelinedBertForPreTraining,
    PipelinedBertForQuestionAnswering,
    PipelinedBertForSequenceClassification,
    PipelinedBertForTokenClassification,
    PipelinedBertModel,
)

__all__ = [
    "BertFusedSelfAttention",
    "PipelinedBertForMaskedLM",
    "PipelinedBertForMultipleChoice",
    "PipelinedBertForPreTraining",
    "PipelinedBertForQuestionAnswering",
    "PipelinedBertForSequenceClassification",
    "PipelinedBertForTokenClassification",
    "PipelinedBertModel",
]
