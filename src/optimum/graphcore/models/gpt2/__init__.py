"""Pipelined GPT-2."""

from optimum.graphcore.models.gpt2.modeling_gpt2 import (
    PipelinedGPT2ForSequenceClassification,
    PipelinedGPT2ForTokenClassification,
    PipelinedGPT2LMHeadModel,
)

__all__ = [
    "PipelinedGPT2ForSequenceClassification",
    "PipelinedGPT2ForTokenClassification",
    "PipelinedGPT2LMHeadModel",
]
