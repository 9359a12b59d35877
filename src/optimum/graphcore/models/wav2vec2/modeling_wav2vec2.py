"""Pipelined Wav2Vec2.

In: a `Wav2Vec2Config` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from transformers import Wav2Vec2ForCTC, Wav2Vec2ForPreTraining
from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2ForPreTrainingOutput, Wav2Vec2GumbelVectorQuantizer

from optimum.graphcore.modeling_utils import PipelineMixin, register
from optimum.graphcore.models.speech.ctc import add_ctc_loss
from optimum.graphcore.models.speech.layout import begin_speech_sequence, make_random_choices_static
from optimum.graphcore.models.wav2vec2.contrast import compute_contrastive_loss, select_frames
from optimum.graphcore.models.wav2vec2.quantizer import IPUWav2Vec2GumbelVectorQuantizer


@register(Wav2Vec2ForCTC)
class PipelinedWav2Vec2ForCTC(PipelineMixin, Wav2Vec2ForCTC):
    """Letters of speech. `layers_per_ipu` counts convolutions, position convolution, encoder layers and the head.

    As in Transformers, the convolutions train with the rest until `freeze_feature_encoder` is called.
    """

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        begin_speech_sequence(self, "wav2vec2", {"lm_head": "Project Hidden"})
        make_random_choices_static(self, "wav2vec2")
        return self

    def forward(
        self,
        input_values: torch.Tensor | None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """As in Transformers."""
        outputs = super().forward(input_values, attention_mask=attention_mask, **kwargs)
        return outputs if labels is None else add_ctc_loss(self, outputs, input_values, attention_mask, labels)


@register(Wav2Vec2ForPreTraining)
class PipelinedWav2Vec2ForPreTraining(PipelineMixin, Wav2Vec2ForPreTraining):
    """Speech without text. After the encoder layers `layers_per_ipu` counts 3 more: two projections, the quantizer."""

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        make_random_choices_static(self, "wav2vec2")
        self.exchange_classes({Wav2Vec2GumbelVectorQuantizer: IPUWav2Vec2GumbelVectorQuantizer})
        heads = {"project_hid": "Project Hidden", "quantizer": "Quantizer", "project_q": "Project Quantizer"}
        begin_speech_sequence(self, "wav2vec2", heads)
        return self

    def forward(
        self,
        input_values: torch.Tensor | None,
        gumbel_temperature: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        mask_time_indices: torch.Tensor | None = None,
        sampled_negative_indices: torch.Tensor | None = None,
        mask_reduced: torch.Tensor | None = None,
        reduce_selector: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """As in Transformers, with three inputs more.

        `gumbel_temperature`, the temperature of the quantizer, may change from step to step and compiles nothing anew.
        `reduce_selector` [batch, count] numbers frames that the loss is computed on, `mask_reduced` says which of these
        are masked: the loss needs the masked ones only, and their number may be bounded. `sampled_negative_indices`
        then number the chosen frames. They may count through all examples of a batch, or anew in each: negatives are
        from the example itself either way. `labels` is not read.
        """
        return_dict = kwargs.pop("return_dict", None)
        mask = None if mask_time_indices is None else mask_time_indices.bool()
        outputs = self.wav2vec2(input_values, attention_mask=attention_mask, mask_time_indices=mask, **kwargs)
        hidden, features = outputs.last_hidden_state, outputs.extract_features
        if reduce_selector is not None:
            assert mask_reduced is not None, "reduce_selector needs mask_reduced: which of these frames are masked"
            hidden, features = select_frames(hidden, reduce_selector), select_frames(features, reduce_selector)
            mask = mask_reduced.bool()
        predictions = self.project_hid(hidden)
        quantized, perplexity = self._quantize(self.dropout_features(features), mask, gumbel_temperature)
        targets = self.project_q(quantized.to(self.project_q.weight.dtype))
        losses: dict[str, torch.Tensor] = {}
        if sampled_negative_indices is not None:
            assert mask is not None, "sampled_negative_indices need mask_time_indices: the loss is on masked frames"
            losses = compute_contrastive_loss(self, predictions, targets, sampled_negative_indices, mask, perplexity)
        result = Wav2Vec2ForPreTrainingOutput(
            projected_states=predictions,
            projected_quantized_states=targets,
            codevector_perplexity=perplexity,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            **losses,
        )
        return result.to_tuple() if return_dict is False else result

    def _quantize(
        self, features: torch.Tensor, mask: torch.Tensor | None, temperature: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if temperature is None:
            return self.quantizer(features, mask_time_indices=mask)  # type: ignore[no-any-return]
        kept = self.quantizer.temperature
        self.quantizer.temperature = temperature.float().mean()  # one number, which comes once for each example
        try:
            return self.quantizer(features, mask_time_indices=mask)  # type: ignore[no-any-return]
        finally:
            self.quantizer.temperature = kept
