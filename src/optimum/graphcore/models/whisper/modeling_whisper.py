"""Pipelined Whisper: speech to text.

In: a `WhisperConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs. With
`use_cond_encoder` the encoder is part of the decoder's program, and runs in the first step of each sequence.
"""

from __future__ import annotations

from transformers import WhisperForConditionalGeneration

from optimum.graphcore.generation import supports_kv_cache
from optimum.graphcore.modeling_utils import register, return_only_loss
from optimum.graphcore.models.encoder_decoder import ConditionalGenerationMixin, EncoderDecoderLayout


@supports_kv_cache
@register(WhisperForConditionalGeneration)
class PipelinedWhisperForConditionalGeneration(
    ConditionalGenerationMixin,
    WhisperForConditionalGeneration,
):
    """Speech to text. In training it returns the loss only."""

    parts = EncoderDecoderLayout(
        encoder="model.encoder",
        decoder="model.decoder",
        layers="layers",
        encoder_start=(
            ("model.encoder.conv1", "Conv1"),
            ("model.encoder.conv2", "Conv2"),
            ("model.encoder.embed_positions", "Embed Positions"),
        ),
        encoder_end=(("model.encoder.layer_norm", "Encoder Layer Norm"),),
        decoder_end=(("model.decoder.layer_norm", "Decoder Layer Norm"),),
        word_embeddings="model.decoder.embed_tokens",
        decoder_embeddings="model.decoder.embed_tokens",
        embeddings_with_decoder=True,
        projection="proj_out",
    )
    cross_projection_names = ("encoder_attn.k_proj", "encoder_attn.v_proj")
    encoder_reads_mask = False  # silence is not masked
    forward = return_only_loss(WhisperForConditionalGeneration.forward, head="proj_out")
