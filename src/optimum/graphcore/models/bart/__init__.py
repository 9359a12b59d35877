"""Pipelined BART."""

from optimum.graphcore.models.bart.modeling_bart import (
    PipelinedBartForConditionalGeneration,
    PipelinedBartForSequenceClassification,
)

__all__ = ["PipelinedBartForConditionalGeneration", "PipelinedBartForSequenceClassification"]
