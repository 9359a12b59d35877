"""Pipelined Whisper."""

from optimum.graphcore.models.whisper.modeling_whisper import PipelinedWhisperForConditionalGeneration
from optimum.graphcore.models.whisper.processing_whisper import WhisperFeatureExtractorTorch, WhisperProcessorTorch

__all__ = ["PipelinedWhisperForConditionalGeneration", "WhisperFeatureExtractorTorch", "WhisperProcessorTorch"]
