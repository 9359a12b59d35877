"""BERT's self-attention with one projection for queries, keys and values."""

from __future__ import annotations

from transformers.models.bert.modeling_bert import BertSelfAttention

from optimum.graphcore.modeling.attention import FusedSelfAttention


class BertFusedSelfAttention(FusedSelfAttention, BertSelfAttention):
    """Stands in for `BertSelfAttention`."""
