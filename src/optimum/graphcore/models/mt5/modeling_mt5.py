"""Pipelined MT5: text to text in many languages.

In: an `MT5Config` or a Transformers model. Out: the same model, which `parallelize` spreads over IPUs. Its vocabulary
is large: `embedding_serialization_factor` lets the projection on it run in parts. Transformers ties both tables.
"""

from __future__ import annotations

from transformers import MT5ForConditionalGeneration

from optimum.graphcore.generation import supports_kv_cache
from optimum.graphcore.modeling_utils import register, return_only_loss
from optimum.graphcore.models.shared_words import look_up_together
from optimum.graphcore.models.t5.modeling_t5 import T5GenerationMixin


@supports_kv_cache
@register(MT5ForConditionalGeneration)
class PipelinedMT5ForConditionalGeneration(T5GenerationMixin, MT5ForConditionalGeneration):
    """Text to text. In training it returns the loss only."""

    forward = return_only_loss(look_up_together(MT5ForConditionalGeneration.forward), head="lm_head")
