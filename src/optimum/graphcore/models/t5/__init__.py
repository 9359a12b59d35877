"""Pipelined T5."""

from optimum.graphcore.models.t5.modeling_t5 import PipelinedT5EncoderModel, PipelinedT5ForConditionalGeneration

__all__ = ["PipelinedT5EncoderModel", "PipelinedT5ForConditionalGeneration"]
