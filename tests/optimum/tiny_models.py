"""Tiny models, tokenizers and feature extractors for pipelines, made here: nothing is downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = (
    *("the", "a", "of", "to", "in", "is", "was", "and", "it", "on", "for", "he", "she", "they", "we", "you"),
    *("cat", "dog", "bird", "sat", "mat", "ran", "home", "red", "blue", "green", "big", "small", "##s"),
    *("who", "what", "where", "when", "paris", "london", "rome", "lives", "works", "anna", "ben", "clara"),
    *("likes", "this", "example", "text", "good", "bad", "about", "food", "sport"),
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LENGTH = 32


def make_tokenizer() -> Any:
    """Words, with word pieces where a plural is unknown."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LENGTH,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        eos_token="[SEP]",
    )


def make_text_model(head: str, **changes: Any) -> Any:
    """A BERT for a task, such as "ForMaskedLM"."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=LENGTH,
        initializer_range=0.3,  # so that answers differ
        **changes,
    )
    return getattr(transformers, f"Bert{head}")(config).eval()


def make_decoder(kind: str = "GPT2") -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": len(SPECIAL) + len(WORDS), "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    if kind == "GPT2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=LENGTH, **sizes)
        return transformers.GPT2LMHeadModel(config).eval()
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, **sizes
    )
    return transformers.LlamaForCausalLM(config).eval()


def make_text_to_text() -> Any:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=len(SPECIAL) + len(WORDS),
        d_model=32,
        d_kv=16,
        d_ff=48,
        num_layers=1,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config).eval()


def make_letter_tokenizer(directory: Path) -> Any:
    """Letters, as CTC models write them."""
    letters = ("<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefghijk")
    file = directory / "vocab.json"
    file.write_text(json.dumps({letter: number for number, letter in enumerate(letters)}))
    return transformers.Wav2Vec2CTCTokenizer(str(file))


def make_feature_extractor() -> Any:
    return transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, return_attention_mask=True)


def make_whisper() -> dict[str, Any]:
    """A Whisper that writes letters, for sounds of a second, with its tokenizer and feature extractor."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    marks = ("endoftext", "startoftranscript", "en", "translate", "transcribe", "notimestamps")
    special = [f"<|{mark}|>" for mark in marks]
    vocabulary = {token: number for number, token in enumerate((*letters, *special))}
    tokenizer = transformers.WhisperTokenizer(vocab=vocabulary, merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    end, start = (tokenizer.convert_tokens_to_ids(token) for token in special[:2])
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=8,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_source_positions=50,
        max_target_positions=32,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=start,
        suppress_tokens=list(range(len(letters), len(tokenizer))),
        begin_suppress_tokens=None,
        init_std=0.5,  # so that letters differ
    )
    return {
        "model": transformers.WhisperForConditionalGeneration(config).eval(),
        "tokenizer": tokenizer,
        "feature_extractor": transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1),
    }
