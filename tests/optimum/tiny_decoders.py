"""Tiny configurations of decoders that have no pipelined class of their own."""

from __future__ import annotations

from typing import Any

import transformers

VOCABULARY = 48
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}


def make_llama_config() -> Any:
    return transformers.LlamaConfig(**GROUPED)


def make_mistral_config() -> Any:
    return transformers.MistralConfig(**GROUPED, sliding_window=4)


def make_qwen_config() -> Any:
    return transformers.Qwen2Config(**GROUPED, tie_word_embeddings=True)
