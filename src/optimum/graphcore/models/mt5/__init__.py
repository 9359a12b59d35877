"""Pipelined MT5."""

from optimum.graphcore.models.mt5.modeling_mt5 import PipelinedMT5ForConditionalGeneration

__all__ = ["PipelinedMT5ForConditionalGeneration"]
