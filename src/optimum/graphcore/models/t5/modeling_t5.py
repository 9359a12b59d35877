"""Pipelined T5: text to text, and its encoder alone.

In: a `T5Config` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from transformers import T5EncoderModel, T5ForConditionalGeneration

from optimum.graphcore.generation import supports_kv_cache
from optimum.graphcore.modeling_utils import (
    Layers,
    Part,
    PipelineLayout,
    PipelineMixin,
    Place,
    register,
    return_only_loss,
)
from optimum.graphcore.models.encoder_decoder import ConditionalGenerationMixin, EncoderDecoderLayout
from optimum.graphcore.models.shared_words import Retie, look_up_together, shift_labels
from optimum.graphcore.models.t5.residuals import keep_residuals_in_float32

T5_PARTS = EncoderDecoderLayout(
    encoder="encoder",
    decoder="decoder",
    layers="block",
    encoder_start=(("encoder.embed_tokens", "Embedding"),),
    encoder_end=(("encoder.final_layer_norm", "Encoder Stack Final LayerNorm"),),
    decoder_end=(("decoder.final_layer_norm", "Decoder Stack Final LayerNorm"),),
    word_embeddings="encoder.embed_tokens",
    tied_embeddings=("shared", "decoder.embed_tokens"),
    decoder_embeddings="decoder.embed_tokens",
    projection="lm_head",
)
T5_ENCODER = PipelineLayout(
    parts=(
        Part("encoder.embed_tokens", "Embedding", Place.FIRST),
        Layers("encoder.block", "Encoder"),
        Part("encoder.final_layer_norm", "Encoder Stack Final LayerNorm"),
    ),
    word_embeddings="encoder.embed_tokens",
)


class T5GenerationMixin(ConditionalGenerationMixin):
    """What T5 and MT5 share."""

    parts = T5_PARTS
    cross_projection_names = ("EncDecAttention.k", "EncDecAttention.v")

    def _place(self, encoder_ipu: Sequence[int], decoder_ipu: Sequence[int]) -> None:
        super()._place(encoder_ipu, decoder_ipu)
        for path in ("encoder", "decoder"):
            keep_residuals_in_float32(self, path)

    def make_decoder_inputs(self, labels: torch.Tensor | None, input_ids: torch.Tensor | None) -> torch.Tensor | None:
        """What the decoder reads if nothing is given: the labels, one to the right."""
        return shift_labels(self, labels)


@supports_kv_cache
@register(T5ForConditionalGeneration)
class PipelinedT5ForConditionalGeneration(T5GenerationMixin, T5ForConditionalGeneration):
    """Text to text. In training it returns the loss only."""

    forward = return_only_loss(look_up_together(T5ForConditionalGeneration.forward), head="lm_head")


@register(T5EncoderModel)
class PipelinedT5EncoderModel(PipelineMixin, T5EncoderModel):
    """The encoder alone."""

    layout = T5_ENCODER

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        self._changes.insert(0, Retie("encoder.embed_tokens", ("shared",)))  # undone last
        keep_residuals_in_float32(self, "encoder")
        return self
