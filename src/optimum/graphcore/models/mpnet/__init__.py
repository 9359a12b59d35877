"""Pipelined MPNet."""

from optimum.graphcore.models.mpnet.attention import MPNetFusedSelfAttention
from optimum.graphcore.models.mpnet.modeling_mpnet import (
    PipelinedMPNetForMaskedLM,
    PipelinedMPNetModel,
)

__all__ = [
    "MPNetFusedSelfAttention",
    "PipelinedMPNetForMaskedLM",
    "PipelinedMPNetModel",
]
