"""Pipelined Wav2Vec2."""

from optimum.graphcore.models.wav2vec2.modeling_wav2vec2 import (
    PipelinedWav2Vec2ForCTC,
    PipelinedWav2Vec2ForPreTraining,
)
from optimum.graphcore.models.wav2vec2.quantizer import IPUWav2Vec2GumbelVectorQuantizer

__all__ = ["IPUWav2Vec2GumbelVectorQuantizer", "PipelinedWav2Vec2ForCTC", "PipelinedWav2Vec2ForPreTraining"]
