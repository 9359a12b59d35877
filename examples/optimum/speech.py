"""The small speech models of two examples: their sizes, which Wav2Vec2 and HuBERT share."""

from __future__ import annotations

from typing import Any

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
    "layerdrop": 0.0,
    "apply_spec_augment": False,
}
