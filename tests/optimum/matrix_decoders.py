"""Rows of the matrix for GPT-2, BART, T5, MT5 and Whisper."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from matrix import Row

VOCABULARY = 64
IGNORED = -100
WORDS = 7
# Two layers of the encoder, two of the decoder, and back to the words: 5 stages forward, 9 in training.
_ON_FOUR = {"layers_per_ipu": [1, 1, 1, 1], "gradient_accumulation_steps": 9}


def make_gpt2_config(**fields: Any) -> transformers.GPT2Config:
    return transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=40,
        n_embd=32,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        **fields,
    )


def make_t5_config(kind: type = transformers.T5Config, **fields: Any) -> Any:
    return kind(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        **fields,
    )


def make_bart_config(**fields: Any) -> transformers.BartConfig:
    return transformers.BartConfig(
        **_make_stacks(dropout=0.0), vocab_size=VOCABULARY, max_position_embeddings=40, **fields
    )


def make_whisper_config(**fields: Any) -> transformers.WhisperConfig:
    return transformers.WhisperConfig(
        **_make_stacks(dropout=0.0),
        vocab_size=VOCABULARY,
        max_source_positions=16,
        max_target_positions=30,
        num_mel_bins=8,
        pad_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **fields,
    )


def _make_stacks(dropout: float) -> dict[str, Any]:
    return {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "dropout": dropout,
    }


def make_words(batch_size: int, length: int = WORDS, seed: int = 0) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (batch_size, length), generator=torch.Generator().manual_seed(seed))


def make_text(batch_size: int) -> dict[str, torch.Tensor]:
    """Words, of which the last row's last two are padding."""
    mask = torch.ones(batch_size, WORDS, dtype=torch.long)
    mask[-1, -2:] = 0
    return {"input_ids": make_words(batch_size), "attention_mask": mask}


def make_continued_text(batch_size: int) -> dict[str, torch.Tensor]:
    text = make_text(batch_size)
    return {**text, "labels": text["input_ids"].masked_fill(text["attention_mask"] == 0, IGNORED)}


def make_translated_text(batch_size: int) -> dict[str, torch.Tensor]:
    labels = make_words(batch_size, 5, seed=1)
    labels[:, -1] = IGNORED
    return {**make_text(batch_size), "decoder_input_ids": make_words(batch_size, 5, seed=2), "labels": labels}


def make_classified_text(batch_size: int) -> dict[str, torch.Tensor]:
    return {**make_text(batch_size), "labels": torch.arange(batch_size) % 3}


def make_text_with_an_end(batch_size: int) -> dict[str, torch.Tensor]:
    batch = make_classified_text(batch_size)
    batch["input_ids"][:, 4] = 2  # BART's end-of-sentence token, once in every row
    return batch


def make_classified_words(batch_size: int) -> dict[str, torch.Tensor]:
    return {**make_text(batch_size), "labels": make_words(batch_size, seed=1) % 3}


def make_speech(batch_size: int) -> dict[str, torch.Tensor]:
    features = torch.randn(batch_size, 8, 32, generator=torch.Generator().manual_seed(3))
    batch = make_translated_text(batch_size)
    return {"input_features": features, "decoder_input_ids": batch["decoder_input_ids"], "labels": batch["labels"]}


ROWS = [
    Row("gpt2.PipelinedGPT2LMHeadModel", "GPT2LMHeadModel", make_gpt2_config, make_continued_text),
    Row(
        "gpt2.PipelinedGPT2LMHeadModel",
        "GPT2LMHeadModel",
        make_gpt2_config,
        make_continued_text,
        on_one={"embedding_serialization_factor": 5},  # 64 words in 5 parts: the last is filled up
        on_four={"layers_per_ipu": [0, 1, 1, 0], "embedding_serialization_factor": 4},
    ),
    Row(
        "gpt2.PipelinedGPT2ForSequenceClassification",
        "GPT2ForSequenceClassification",
        lambda: make_gpt2_config(num_labels=3),
        make_classified_text,
        on_one={"embedding_serialization_factor": 4},
    ),
    Row(
        "gpt2.PipelinedGPT2ForTokenClassification",
        "GPT2ForTokenClassification",
        lambda: make_gpt2_config(num_labels=3, classifier_dropout=0.0),
        make_classified_words,
    ),
    Row(
        "t5.PipelinedT5ForConditionalGeneration",
        "T5ForConditionalGeneration",
        make_t5_config,
        make_translated_text,
        on_one={"embedding_serialization_factor": 4},
        on_four=_ON_FOUR,
    ),
    Row(
        "t5.PipelinedT5EncoderModel",
        "T5EncoderModel",
        make_t5_config,
        make_text,
        labels=(),
        on_one={"embedding_serialization_factor": 4},
    ),
    Row(
        "mt5.PipelinedMT5ForConditionalGeneration",
        "MT5ForConditionalGeneration",
        lambda: make_t5_config(transformers.MT5Config),
        make_translated_text,
        on_one={"embedding_serialization_factor": 4, "projection_serialization_factor": 2},
        on_four=_ON_FOUR,
    ),
    Row(
        "bart.PipelinedBartForConditionalGeneration",
        "BartForConditionalGeneration",
        lambda: make_bart_config(scale_embedding=True),
        make_translated_text,
        on_one={"embedding_serialization_factor": 4},
        on_four=_ON_FOUR,
    ),
    Row(
        "bart.PipelinedBartForSequenceClassification",
        "BartForSequenceClassification",
        lambda: make_bart_config(num_labels=3, classifier_dropout=0.0),
        make_text_with_an_end,
        on_four=_ON_FOUR,
    ),
    Row(
        "whisper.PipelinedWhisperForConditionalGeneration",
        "WhisperForConditionalGeneration",
        make_whisper_config,
        make_speech,
        on_one={"projection_serialization_factor": 2},
        on_four=_ON_FOUR,
    ),
]
