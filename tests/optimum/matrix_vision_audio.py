"""Rows of the matrix: pictures, sounds, and pictures with words."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from matrix import Row

SAMPLES = 160
FRAMES = 7  # (160 - 10) // 5 + 1 = 31 after the first convolution, (31 - 4) // 4 + 1 after the second
SPEECH = {
    "vocab_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
    "num_labels": 3,
    "hidden_dropout": 0.0,
    "activation_dropout": 0.0,
    "attention_dropout": 0.0,
    "feat_proj_dropout": 0.0,
    "final_dropout": 0.0,
    "layerdrop": 0.0,
    "apply_spec_augment": False,
}
ON_FOUR_SPEECH = {"layers_per_ipu": [3, 1, 1, 1], "recompute_checkpoint_every_layer": True}


def make_pictures(batch_size: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(batch_size, 3, 16, 16, generator=generator)
    return {"pixel_values": pixels, "labels": torch.arange(batch_size) % 3}


def make_sounds(batch_size: int) -> dict[str, torch.Tensor]:
    """Sounds, of which every second is shorter."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(batch_size, SAMPLES, dtype=torch.long)
    mask[::2, SAMPLES - 40 :] = 0
    samples = torch.randn(batch_size, SAMPLES, generator=generator)
    return {"input_values": samples * mask, "attention_mask": mask, "labels": torch.arange(batch_size) % 3}


def make_speech(batch_size: int) -> dict[str, torch.Tensor]:
    """Labels with padding at the end, by -100 or by the blank."""
    letters = torch.tensor([[3, 5, -100], [4, 4, 6], [7, 0, 0]])
    return {**make_sounds(batch_size), "labels": letters[torch.arange(batch_size) % 3]}


def make_masked_sounds(batch_size: int) -> dict[str, torch.Tensor]:
    frames = int(
        transformers.Wav2Vec2ForPreTraining(make_pretraining_config())._get_feat_extract_output_lengths(SAMPLES)
    )
    mask = torch.zeros(batch_size, frames, dtype=torch.bool)
    mask[:, 1:4] = True
    return {"input_values": make_sounds(batch_size)["input_values"], "mask_time_indices": mask}


def make_questions(batch_size: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(batch_size, 8, dtype=torch.long)
    mask[::2, 6:] = 0
    return {
        "input_ids": torch.randint(1, 64, (batch_size, 8), generator=generator),
        "attention_mask": mask,
        "token_type_ids": torch.zeros(batch_size, 8, dtype=torch.long),
        "visual_feats": torch.randn(batch_size, 5, 12, generator=generator),
        "visual_pos": torch.rand(batch_size, 5, 4, generator=generator),
        "labels": torch.arange(batch_size) % 3,
    }


def make_vit_config() -> Any:
    return transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=16,
        patch_size=4,
        num_labels=3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def make_convnext_config() -> Any:
    return transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 3], num_stages=2, num_labels=3)


def make_hubert_config() -> Any:
    return transformers.HubertConfig(**SPEECH)


def make_stable_hubert_config() -> Any:
    """The large form: layer norms before attention, and in every convolution."""
    return transformers.HubertConfig(**SPEECH, do_stable_layer_norm=True, feat_extract_norm="layer")


def make_wav2vec2_config() -> Any:
    return transformers.Wav2Vec2Config(**SPEECH)


def make_pretraining_config() -> Any:
    return transformers.Wav2Vec2Config(
        **{**SPEECH, "apply_spec_augment": True},
        num_codevectors_per_group=8,
        num_codevector_groups=2,
        codevector_dim=16,
        proj_codevector_dim=16,
        feat_quantizer_dropout=0.0,
    )


def make_lxmert_config() -> Any:
    return transformers.LxmertConfig(
        vocab_size=64,
        hidden_size=32,
        num_attention_heads=2,
        intermediate_size=48,
        l_layers=1,
        r_layers=1,
        x_layers=1,
        visual_feat_dim=12,
        num_qa_labels=3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


ROWS = [
    Row("vit.PipelinedViTForImageClassification", "ViTForImageClassification", make_vit_config, make_pictures),
    Row(
        "convnext.PipelinedConvNextForImageClassification",
        "ConvNextForImageClassification",
        make_convnext_config,
        make_pictures,
        on_four={"layers_per_ipu": [1, 1, 1, 1], "recompute_checkpoint_every_layer": True},
    ),
    Row(
        "hubert.PipelinedHubertForSequenceClassification",
        "HubertForSequenceClassification",
        make_hubert_config,
        make_sounds,
    ),
    Row("hubert.PipelinedHubertCTC", "HubertForCTC", make_stable_hubert_config, make_speech, on_four=ON_FOUR_SPEECH),
    Row(
        "wav2vec2.PipelinedWav2Vec2ForCTC",
        "Wav2Vec2ForCTC",
        make_wav2vec2_config,
        make_speech,
        on_four=ON_FOUR_SPEECH,
    ),
    Row(
        # Its training step draws Gumbel noise: test_speech.py compares one without.
        "wav2vec2.PipelinedWav2Vec2ForPreTraining",
        "Wav2Vec2ForPreTraining",
        make_pretraining_config,
        make_masked_sounds,
        labels=(),
        on_four={"layers_per_ipu": [3, 2, 2, 1]},
    ),
    Row(
        "lxmert.PipelinedLxmertForQuestionAnswering",
        "LxmertForQuestionAnswering",
        make_lxmert_config,
        make_questions,
        on_four={"ipus_per_replica": 4, "recompute_checkpoint_every_layer": True},
    ),
]
