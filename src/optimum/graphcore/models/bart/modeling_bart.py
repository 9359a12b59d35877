"""Pipelined BART: text to text, and classes of texts.

In: a `BartConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import BartForConditionalGeneration, BartForSequenceClassification
from transformers.loss.loss_utils import ForSequenceClassificationLoss
from transformers.modeling_outputs import Seq2SeqSequenceClassifierOutput
from transformers.models.bart.modeling_bart import BartEncoderLayer

from optimum.graphcore.generation import supports_kv_cache
from optimum.graphcore.modeling_utils import register, return_only_loss
from optimum.graphcore.models.bart.finite import IPUBartEncoderLayer
from optimum.graphcore.models.encoder_decoder import (
    ConditionalGenerationMixin,
    EncoderDecoderLayout,
    EncoderDecoderPipelineMixin,
)
from optimum.graphcore.models.shared_words import look_up_together, shift_labels

_PARTS = EncoderDecoderLayout(
    encoder="model.encoder",
    decoder="model.decoder",
    layers="layers",
    encoder_start=(("model.encoder.embed_tokens", "Embedding"),),
    word_embeddings="model.encoder.embed_tokens",
    tied_embeddings=("model.shared", "model.decoder.embed_tokens"),
    decoder_embeddings="model.decoder.embed_tokens",
    projection="lm_head",
)


class BartPipelineMixin(EncoderDecoderPipelineMixin):
    """What all BART classes share."""

    parts = _PARTS

    def _place(self, encoder_ipu: Sequence[int], decoder_ipu: Sequence[int]) -> None:
        self.exchange_classes({BartEncoderLayer: IPUBartEncoderLayer})
        super()._place(encoder_ipu, decoder_ipu)

    def make_decoder_inputs(self, labels: torch.Tensor | None, input_ids: torch.Tensor | None) -> torch.Tensor | None:
        """What the decoder reads if nothing is given: the labels, or else the text itself, one to the right."""
        return shift_labels(self, labels if labels is not None else input_ids)


@supports_kv_cache
@register(BartForConditionalGeneration)
class PipelinedBartForConditionalGeneration(
    ConditionalGenerationMixin,
    BartPipelineMixin,
    BartForConditionalGeneration,
):
    """Text to text. In training it returns the loss only."""

    cross_projection_names = ("encoder_attn.k_proj", "encoder_attn.v_proj")
    forward = return_only_loss(look_up_together(BartForConditionalGeneration.forward), head="lm_head")


@register(BartForSequenceClassification)
class PipelinedBartForSequenceClassification(BartPipelineMixin, BartForSequenceClassification):
    """The class of a text, from its last end-of-sentence token."""

    parts = replace(_PARTS, projection=None, head=("classification_head", "Classification Head"))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        encoder_outputs: Any = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqSequenceClassifierOutput:
        """As in Transformers, but each text may have its own number of end-of-sentence tokens; the last one counts."""
        outputs = _run_body(
            self,
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=False if labels is not None else use_cache,
            **kwargs,
        )
        logits = self.classification_head(_select_last(outputs[0], input_ids == self.config.eos_token_id))
        loss = None if labels is None else ForSequenceClassificationLoss(labels, logits, self.config)
        return Seq2SeqSequenceClassifierOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
        )


@look_up_together
def _run_body(
    self: Any,
    input_ids: torch.Tensor | None = None,
    decoder_input_ids: torch.Tensor | None = None,
    encoder_outputs: Any = None,
    inputs_embeds: torch.Tensor | None = None,
    decoder_inputs_embeds: torch.Tensor | None = None,
    **kwargs: Any,
) -> Any:
    return self.model(
        input_ids=input_ids,
        decoder_input_ids=decoder_input_ids,
        encoder_outputs=encoder_outputs,
        inputs_embeds=inputs_embeds,
        decoder_inputs_embeds=decoder_inputs_embeds,
        **kwargs,
    )


def _select_last(states: torch.Tensor, marked: torch.Tensor) -> torch.Tensor:
    """The state [batch, size] of the last marked token of each row, at a place that needs no value while compiling."""
    order = torch.arange(1, marked.shape[1] + 1, device=marked.device)
    position = (marked * order).argmax(dim=1)
    chosen = nn.functional.one_hot(position, marked.shape[1]).to(states.dtype)
    return torch.matmul(chosen.unsqueeze(1), states).squeeze(1)
