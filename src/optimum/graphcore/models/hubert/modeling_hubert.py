"""Pipelined HuBERT.

In: a `HubertConfig` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from transformers import HubertForCTC, HubertForSequenceClassification

from optimum.graphcore.modeling_utils import Layers, Part, PipelineLayout, PipelineMixin, Place, register
from optimum.graphcore.models.speech.ctc import add_ctc_loss
from optimum.graphcore.models.speech.layout import begin_speech_sequence, make_random_choices_static


@register(HubertForSequenceClassification)
class PipelinedHubertForSequenceClassification(PipelineMixin, HubertForSequenceClassification):
    """Kinds of sounds. `layers_per_ipu` counts the layers of the encoder."""

    layout = PipelineLayout(
        parts=(
            Part("hubert.feature_extractor", "Feature Extractor", Place.FIRST),
            Part("hubert.feature_projection", "Feature Projection", Place.FIRST),
            Part("hubert.encoder", "Positional Embedding", Place.FIRST),
            Layers("hubert.encoder.layers", "Encoder"),
            Part("projector", "Projector"),
            Part("classifier", "Classifier Output"),
        )
    )

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        make_random_choices_static(self, "hubert")
        return self


@register(HubertForCTC)
class PipelinedHubertCTC(PipelineMixin, HubertForCTC):
    """Letters of speech. `layers_per_ipu` counts convolutions, position convolution, encoder layers and the head.

    As in Transformers, the convolutions train with the rest until `freeze_feature_encoder` is called.
    """

    def parallelize(self) -> Self:
        """Spread the model over IPUs as its `ipu_config` says, for the mode that the configuration is in."""
        super().parallelize()
        begin_speech_sequence(self, "hubert", {"lm_head": "Project Hidden"})
        make_random_choices_static(self, "hubert")
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
