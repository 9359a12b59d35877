"""RoBERTa's self-attention with one projection for queries, keys and values."""

from __future__ import annotations

from transformers.models.roberta.modeling_roberta import RobertaSelfAttention

from optimum.graphcore.modeling.attention import FusedSelfAttention


class RobertaFusedSelfAttention(FusedSelfAttention, RobertaSelfAttention):
    """Stands in for `RobertaSelfAttention`."""
