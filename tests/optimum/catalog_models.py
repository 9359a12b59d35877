"""The models that the built-in configurations are for, by checkpoint: real sizes, without weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from optimum.graphcore.models.groupbert import GroupBertConfig, GroupBertForMaskedLM

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
BART_BASE = {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}
T5_BASE = {"d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}
T5_LARGE = {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}
CONVNEXT_BASE = {"depths": [3, 3, 27, 3], "hidden_sizes": [128, 256, 512, 1024]}
WHISPER_TINY = {"encoder_layers": 4, "decoder_layers": 4, "d_model": 384}

BUILDERS: dict[str, Callable[[], Any]] = {  # a configuration, or a checkpoint that shares one and differs
    "bert-base-ipu": lambda: hf.BertForMaskedLM(hf.BertConfig()),
    "bert-base-cased": lambda: hf.BertForTokenClassification(hf.BertConfig(vocab_size=28996)),
    "bert-base-multilingual-cased": lambda: hf.BertForMaskedLM(hf.BertConfig(vocab_size=119547)),
    "bert-large-ipu": lambda: hf.BertForQuestionAnswering(hf.BertConfig(**LARGE)),
    "roberta-base-ipu": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**ROBERTA)),
    "xlm-roberta-base-ipu": lambda: hf.XLMRobertaForMaskedLM(hf.XLMRobertaConfig(**{**ROBERTA, "vocab_size": 250002})),
    "roberta-large-ipu": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**ROBERTA, **LARGE)),
    "distilbert-base-ipu": lambda: hf.DistilBertForMaskedLM(hf.DistilBertConfig()),
    "distilroberta-base-ipu": lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**ROBERTA, num_hidden_layers=6)),
    "deberta-base-ipu": lambda: hf.DebertaForMaskedLM(
        hf.DebertaConfig(
            vocab_size=50265, relative_attention=True, pos_att_type=["c2p", "p2c"], position_biased_input=False
        )
    ),
    "mpnet-base-ipu": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig()),
    "groupbert-base-ipu": lambda: GroupBertForMaskedLM(GroupBertConfig()),
    "gpt2-small-ipu": lambda: hf.GPT2LMHeadModel(hf.GPT2Config()),
    "distilgpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=6)),
    "gpt2-medium-ipu": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=1024, n_layer=24, n_head=16)),
    "t5-small-ipu": lambda: hf.T5ForConditionalGeneration(hf.T5Config()),
    "t5-base-ipu": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5_BASE)),
    "sentence-t5-base": lambda: hf.T5EncoderModel(hf.T5Config(**T5_BASE)),
    "t5-large-ipu": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5_LARGE)),
    "mt5-small-ipu": lambda: hf.MT5ForConditionalGeneration(hf.MT5Config()),
    "mt5-large-ipu": lambda: hf.MT5ForConditionalGeneration(hf.MT5Config(**{**T5_LARGE, "d_ff": 2816})),
    "bart-base-ipu": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**BART_BASE)),
    "bart-large-ipu": lambda: hf.BartForConditionalGeneration(hf.BartConfig()),
    "bart-large-cnn-ipu": lambda: hf.BartForConditionalGeneration(hf.BartConfig(vocab_size=50264)),
    "distilbart-cnn-12-6": lambda: hf.BartForConditionalGeneration(hf.BartConfig(vocab_size=50264, decoder_layers=6)),
    "vit-base-ipu": lambda: hf.ViTForImageClassification(hf.ViTConfig()),
    "convnext-base-ipu": lambda: hf.ConvNextForImageClassification(hf.ConvNextConfig(**CONVNEXT_BASE)),
    "convnext-tiny-224": lambda: hf.ConvNextForImageClassification(hf.ConvNextConfig()),
    "hubert-base-ipu": lambda: hf.HubertForSequenceClassification(hf.HubertConfig()),
    "wav2vec2-base-ipu": lambda: hf.Wav2Vec2ForPreTraining(hf.Wav2Vec2Config()),
    "wav2vec2-large-ipu": lambda: hf.Wav2Vec2ForPreTraining(hf.Wav2Vec2Config(**LARGE)),
    "wav2vec2-ctc-base-ipu": lambda: hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config()),
    "wav2vec2-ctc-large-ipu": lambda: hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**LARGE)),
    "lxmert-base-ipu": lambda: hf.LxmertForQuestionAnswering(hf.LxmertConfig()),
    "whisper-tiny-ipu": lambda: hf.WhisperForConditionalGeneration(hf.WhisperConfig(**WHISPER_TINY)),
    "whisper-small": lambda: hf.WhisperForConditionalGeneration(hf.WhisperConfig(encoder_layers=12, decoder_layers=12)),
}


def build_without_weights(name: str) -> Any:
    """The model of a configuration or a checkpoint, on the meta device."""
    with torch.device("meta"):
        return BUILDERS[name]()
