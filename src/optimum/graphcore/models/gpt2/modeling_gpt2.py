"""Pipelined GPT-2: language modelling and generation, sequence and token classification.

In: a `GPT2Config` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs.
"""

from __future__ import annotations

from typing import Any, Self

from transformers import GPT2ForSequenceClassification, GPT2ForTokenClassification, GPT2LMHeadModel

from optimum.graphcore.generation import IPUGenerationMixin, supports_kv_cache
from optimum.graphcore.modeling_utils import (
    Layers,
    Part,
    PipelineLayout,
    PipelineMixin,
    Place,
    read_serialization,
    register,
    return_only_loss,
)
from optimum.graphcore.models.gpt2.vocabulary import PaddedSerializedLinear

_DECODER = PipelineLayout(
    parts=(
        Part("wte", "Token embedding", Place.FIRST),
        Part("wpe", "Position embedding", Place.FIRST),
        Layers("h", "Layer"),
    ),
    word_embeddings="wte",
    outlined="ln_f",
).nest("transformer")


class GPT2PipelineMixin(PipelineMixin):
    """What all GPT-2 classes share: no cache is returned, because a program returns tensors."""

    def parallelize(self) -> Self:
        super().parallelize()
        self.change_attribute("", "config.use_cache", False)
        return self


@register(GPT2ForSequenceClassification)
class PipelinedGPT2ForSequenceClassification(GPT2PipelineMixin, GPT2ForSequenceClassification):
    """The class of a text, from its last token."""

    layout = _DECODER.add(Part("score", "Score"))


@register(GPT2ForTokenClassification)
class PipelinedGPT2ForTokenClassification(GPT2PipelineMixin, GPT2ForTokenClassification):
    """The class of each token."""

    layout = _DECODER.add(Part("classifier", "Classifier"))


@supports_kv_cache
@register(GPT2LMHeadModel)
class PipelinedGPT2LMHeadModel(IPUGenerationMixin, GPT2PipelineMixin, GPT2LMHeadModel):
    """The next token, and generation. In training it returns the loss only."""

    layout = PipelineLayout((*_DECODER.parts, Part("lm_head", "LM head", Place.FIRST)), outlined=_DECODER.outlined)
    forward = return_only_loss(GPT2LMHeadModel.forward, head="lm_head")

    def parallelize(self, for_generation: bool = False, **kwargs: Any) -> Self:
        """For training and evaluation, or with `for_generation` for `generate`: see `GenerationSettings`."""
        settings = self.read_generation_settings(for_generation, kwargs)
        with self.use_generation_config(for_generation):
            super().parallelize()
            factor = max(read_serialization(self.ipu_config, layer)[0] for layer in ("embedding", "projection"))
        if factor > 1:  # one table for both: the product is what needs the memory, and the table stays whole
            self.exchange_module("lm_head", lambda head: PaddedSerializedLinear.from_model(head, factor))
            self.begin_block("lm_head", "LM head", 0)  # the block of the layer before went with it
        self.set_generation_settings(settings)
        return self

    def deparallelize(self) -> Self:
        """Undo what `parallelize` did, and give up what was compiled for `generate`."""
        self.set_generation_settings(None)
        return super().deparallelize()
