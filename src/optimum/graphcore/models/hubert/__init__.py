"""Pipelined HuBERT."""

from optimum.graphcore.models.hubert.modeling_hubert import (
    PipelinedHubertCTC,
    PipelinedHubertForSequenceClassification,
)

__all__ = ["PipelinedHubertCTC", "PipelinedHubertForSequenceClassification"]
